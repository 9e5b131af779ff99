// Recipients of an email whom the server has deferred: they are tried again alone, and never those that it accepted.
import type { StoredRecipient } from '#domain/messages/message.ts'
import type { MessageUpdate } from '#domain/messages/update.ts'

type Recipients = { recipients: StoredRecipient[] }

export function isWaiting({ deferred }: StoredRecipient): boolean {
  return deferred === 'waiting'
}

/** How often recipients were deferred since the server took the email for others. What failed before does not count. */
export function countDeferrals({ recipients }: Recipients): number {
  return Math.max(0, ...recipients.map(({ deferrals = 0 }) => deferrals))
}

/** The same, deferred once more where they wait. */
export function countDeferral(recipients: StoredRecipient[], deferrals: number): StoredRecipient[] {
  return recipients.map((each) => (isWaiting(each) ? { ...each, deferrals: deferrals + 1 } : each))
}

/** Those that an attempt was to try again and did not reach: they wait for another. */
export function returnToWaiting({ recipients }: Recipients): StoredRecipient[] {
  return recipients.flatMap((each) => (each.deferred === 'trying' ? [{ ...each, deferred: 'waiting' }] : []))
}

/** Those that an attempt tried again, where its answer was lost: they are not tried any more. */
export function unknownRecipients({ recipients }: Recipients): StoredRecipient[] {
  const message = 'It is not known whether the server accepted it.'
  return recipients.flatMap((each) =>
    each.deferred === 'trying' ? [{ ...each, code: null, message, deferred: 'unknown' }] : [],
  )
}

/** Those that an attempt tried again, which the server refused as a whole. */
export function refuseTried(
  { recipients }: Recipients,
  { provider_code: code, message }: { provider_code: string | null; message: string },
): StoredRecipient[] {
  return recipients.flatMap(({ address, deferred }) =>
    deferred === 'trying' ? [{ address, status: 'refused', code, message }] : [],
  )
}

/** Without another attempt: who waits for one is refused. */
export function refuseWaiting(recipients: StoredRecipient[]): StoredRecipient[] {
  return recipients.map(({ deferred, ...each }) =>
    deferred === 'waiting' ? { ...each, status: 'refused' } : each,
  )
}

/** What says that deferred recipients are settled; for a message that has left before. */
export function recipientsUpdate(recipients: StoredRecipient[]): Pick<MessageUpdate, 'event' | 'recipients'> {
  return { event: recipients.every(isWaiting) ? null : 'message.recipients_settled', recipients }
}
