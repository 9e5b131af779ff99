// The recipients of an email that the server deferred. Only these are retried, never the recipients that the server
// accepted.
import type { StoredRecipient } from '#domain/messages/message.ts'
import type { MessageUpdate } from '#domain/messages/update.ts'

type Recipients = { recipients: StoredRecipient[] }

export function isWaiting({ deferred }: StoredRecipient): boolean {
  return deferred === 'waiting'
}

/** The number of deferrals since the server accepted the email for other recipients. */
export function countDeferrals({ recipients }: Recipients): number {
  return Math.max(0, ...recipients.map(({ deferrals = 0 }) => deferrals))
}

/** All recipients. Each waiting recipient has one deferral more than `deferrals`, the number so far. */
export function countDeferral(recipients: StoredRecipient[], deferrals: number): StoredRecipient[] {
  return recipients.map((each) => (isWaiting(each) ? { ...each, deferrals: deferrals + 1 } : each))
}

/** The recipients that an attempt should have retried but did not reach: they wait for the next attempt. */
export function returnToWaiting({ recipients }: Recipients): StoredRecipient[] {
  return recipients.flatMap((each) => (each.deferred === 'trying' ? [{ ...each, deferred: 'waiting' }] : []))
}

/** The recipients of a retry whose answer was lost: they are not retried again. */
export function unknownRecipients({ recipients }: Recipients): StoredRecipient[] {
  const message = 'Whether the server accepted the email is unknown.'
  return recipients.flatMap((each) =>
    each.deferred === 'trying' ? [{ ...each, code: null, message, deferred: 'unknown' }] : [],
  )
}

/** The recipients of a retry in which the server refused the email for every recipient. */
export function refuseTried(
  { recipients }: Recipients,
  { provider_code: code, message }: { provider_code: string | null; message: string },
): StoredRecipient[] {
  return recipients.flatMap(({ address, deferred }) =>
    deferred === 'trying' ? [{ address, status: 'refused', code, message }] : [],
  )
}

/** All recipients after the last attempt: the waiting recipients count as refused. */
export function refuseWaiting(recipients: StoredRecipient[]): StoredRecipient[] {
  return recipients.map(({ deferred, ...each }) =>
    deferred === 'waiting' ? { ...each, status: 'refused' } : each,
  )
}

/** The update for deferred recipients of a message that is already sent. */
export function recipientsUpdate(recipients: StoredRecipient[]): Pick<MessageUpdate, 'event' | 'recipients'> {
  return { event: recipients.every(isWaiting) ? null : 'message.recipients_settled', recipients }
}
