// After the database went back in time, clients repeat requests with their keys.
import { setTimeout as sleep } from 'node:timers/promises'
import { isFinalAnswer, RETRY_DELAY_MS } from './calls.ts'
import type { Random } from './random.ts'
import { isInterrupted, type ClientRecord, type SentRequest, type Switch } from './record.ts'
import { isExpiredSendAt } from './scenarios/send.ts'

const TIMEOUT_MS = 60_000
/** The other clients do not know that something is lost. */
const SHARE_OF_CLIENTS = 0.5
const EMAIL = /^\/v1\/messages\/email/

/**
 * Repeats what half of the interrupted scenarios had sent between these times, for each scenario in the order of the
 * answers. `emails_since`: an email of before cannot be looked for, and is not on record as accepted, so clients must
 * not repeat the request for it. Clocks: `performance.now()`.
 */
export async function repeatSent(
  record: ClientRecord,
  { since, until, emails_since }: Switch & { emails_since: number },
  random: Random,
): Promise<void> {
  const lost = record.sent.filter(
    ({ scenario, accepted_at, path }) =>
      isInterrupted(record, scenario) &&
      accepted_at >= since &&
      accepted_at <= until &&
      (accepted_at >= emails_since || !EMAIL.test(path)),
  )
  const scenarios = [...Map.groupBy(lost, ({ scenario }) => scenario).values()]
  const repeating = scenarios.filter(() => random.next() < SHARE_OF_CLIENTS)
  await Promise.all(
    repeating.map(async (sent) => {
      for (const request of sent) await repeat(record, request)
    }),
  )
}

/** Repeats a request until its answer is final. A refusal is no problem: the request must then be back or named. */
async function repeat(record: ClientRecord, { clients, path, body }: SentRequest): Promise<void> {
  const deadline = performance.now() + TIMEOUT_MS
  for (let attempt = 0; performance.now() < deadline; attempt++) {
    const client = clients[attempt % clients.length]!
    const answer = await client.post(path, body, { prefer: 'wait=5' }).catch(() => null)
    record.requests++
    if (answer?.status === 500)
      record.problems.push({ problem: 'an API answered 500', path, answer: answer.text })
    // A message that was to be sent meanwhile is refused.
    if (answer !== null && isExpiredSendAt(answer)) return
    if (answer !== null && isFinalAnswer(answer)) {
      const { idempotency_key: key } = body as { idempotency_key?: string }
      const before = key === undefined ? undefined : record.accepted.get(key)
      if (before !== undefined && answer.status < 300 && before.id !== answer.body.id)
        record.problems.push({ problem: 'a key has two resources', before, answer: answer.text })
      return
    }
    await sleep(RETRY_DELAY_MS)
  }
}
