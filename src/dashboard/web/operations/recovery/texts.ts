// Texts about switches of the database.
import { counted } from '../../kit/counts.ts'
import { formatInstant } from '../../kit/Instant.tsx'
import type { RecoveryAnswer, SwitchRow } from '../shapes.ts'

export const SWITCH_KINDS: Record<SwitchRow['kind'], string> = {
  failover: 'Failover',
  restore: 'Restore',
  planned: 'Planned move',
}

export const SWITCH_SIGNS: Record<SwitchRow['sign'], string> = {
  lineage: 'Another server or timeline',
  witness: 'A witness had seen later changes',
  operator: 'Declared by an operator',
}

export const HELD_MESSAGES: Record<NonNullable<SwitchRow['messages']>, string> = {
  send: 'messages sent',
  discard: 'messages discarded',
}

const HOLDS: Record<NonNullable<RecoveryAnswer['hold']>, string> = {
  payouts: 'Payouts and refunds wait until the lists of the providers have been read.',
  creations:
    'Everything that creates something at a provider waits until the lists of the providers have been read.',
  all: 'All jobs wait until an operator releases them.',
}

/** What waits since a switch, in a sentence or two. */
export function waitingText({
  hold,
  holds_messages,
  holds_sms,
  recording,
  is_sealed,
}: RecoveryAnswer): string {
  if (is_sealed) return 'All jobs wait, because the database is sealed.'
  if (recording !== null) return 'All jobs wait until the switch is recorded completely.'
  const texts = [
    ...(hold === null ? [] : [HOLDS[hold]]),
    ...(holds_messages && hold !== 'all' ? ['Messages that were accepted before the switch wait.'] : []),
  ]
  if (holds_sms)
    texts.push('SMS that were accepted before the switch wait until the received SMS have been read.')
  return texts.length === 0 ? 'Nothing waits.' : texts.join(' ')
}

/** What is left of the switch that is not recorded completely. */
export function recordingText(recording: NonNullable<RecoveryAnswer['recording']>): string {
  const { number, since, jobs_left, feeds_left } = recording
  const left = `${counted(jobs_left, 'open job')} and ${counted(feeds_left, 'feed')} are left`
  return `Switch ${number} is not recorded completely, since ${formatInstant(since)}: ${left}.`
}

/** The name of the list of received SMS. */
const RECEIVED_SMS = 'received SMS'

/** What an operator takes on who does not wait for the lists of the providers. */
export function waiverText(lists: RecoveryAnswer['failing_lists']): string {
  return [
    ...failingTexts(lists),
    ...(lists.some(({ list }) => list === RECEIVED_SMS)
      ? ['The SMS that wait are sent, even to people whose opt-out the database lost.']
      : []),
    'What the database lost and only the lists show is not known here: first compare with the dashboard of the provider.',
    'The lists are still read, and what they show is recovered.',
  ].join(' ')
}

/** What an operator takes on who does not wait for the received SMS. */
export function smsWaiverText(lists: RecoveryAnswer['failing_lists']): string {
  return [
    ...failingTexts(lists.filter(({ list }) => list === RECEIVED_SMS)),
    'First look for opt-outs at the provider, and suppress these numbers.',
    'The list is still read, and the opt-outs in it count from then on.',
  ].join(' ')
}

function failingTexts(lists: RecoveryAnswer['failing_lists']): string[] {
  const failing = lists.map(({ list, provider }) => `${list} of ${provider}`)
  return failing.length === 0 ? [] : [`Cannot be read: ${LIST.format(failing)}.`]
}

/** Whether changes before the switch may be lost. */
export function mayHaveLost({ newest_at, switched_at }: SwitchRow): boolean {
  return newest_at < switched_at
}

/** `switch 2`, `switches 2 and 3`. */
export function switchesText(numbers: number[]): string {
  return `${numbers.length === 1 ? 'switch' : 'switches'} ${LIST.format(numbers.map(String))}`
}

/** `1 job in payments and 2 jobs in payouts`. */
export function heldText(held: { queue: string; jobs: number }[]): string {
  return LIST.format(held.map(({ queue, jobs }) => `${counted(jobs, 'job')} in ${queue}`))
}

const LIST = new Intl.ListFormat('en')
