// Follows messages after they were sent: asks about SMS of which nothing is heard, and erases what is old.
import { SMS } from '#core/config/providers.ts'
import { askLater, fillPrices, takeUnheard, type UnheardSms } from '#domain/messages/unheard.ts'
import { postponeRun, recordRun } from '#domain/jobs/recurring.ts'
import { eraseOldTexts, forgetOldLimits } from '#domain/messages/retention.ts'
import type { MessageNews } from '#domain/messages/told.ts'
import type { Outcome } from '#core/outcome.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { storeNotifications, type Arrival } from '#domain/notifications/store.ts'
import type { ProviderSms, SmsProvider } from '#providers/sms.ts'
import { every, RunFailed, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** The name of this work on record. */
const LOOKUPS = 'SMS lookups'
const LOOK_MS = 5_000
/** SMS that are asked about at once. */
const ASKED_AT_ONCE = 20
/** While the provider does not answer, it is asked so rarely, or as rarely as it says. */
const UNASKED_MS = 60_000
/** Rows that one statement erases or deletes. */
const AT_ONCE = 500

/** Starts this work; each step is safe in several workers at once. */
export function followMessages(context: WorkerContext, retention_days: number): Loop {
  const { sql, sms, log } = context
  let closing = false
  const closed = () => closing
  const whole = async (step: () => Promise<number>, at_once = AT_ONCE) => {
    while ((await step()) === at_once && !closed());
  }
  let ask_ms = LOOK_MS
  const loops = [
    every(
      log,
      'texts of old messages',
      () => LOOK_MS,
      () => whole(() => eraseOldTexts(sql, retention_days, AT_ONCE)),
    ),
    every(
      log,
      'old counts of messages',
      () => LOOK_MS,
      () => whole(() => forgetOldLimits(sql, AT_ONCE)),
    ),
    ...(sms === null
      ? []
      : [
          every(
            log,
            LOOKUPS,
            () => ask_ms,
            async () => {
              ask_ms = LOOK_MS
              await whole(async () => {
                const { due, refused } = await askAboutUnheard(context, sms)
                if (refused === null) return due
                ask_ms = refused.wait_ms
                throw new RunFailed(refused.reason)
              }, ASKED_AT_ONCE)
            },
          ),
        ]),
  ]
  return {
    async close() {
      closing = true
      await Promise.all(loops.map((loop) => loop.close()))
    },
  }
}

/**
 * What the provider says that is new is stored as its callback would be. Returns how many were due, and how long to wait when
 * it answers no more.
 */
async function askAboutUnheard(
  { sql, log, config }: WorkerContext,
  provider: SmsProvider,
): Promise<{ due: number; refused: { wait_ms: number; reason: string } | null }> {
  const started = performance.now()
  const { taken, wanted } = await takeUnheard(sql, ASKED_AT_ONCE)
  const answers = await Promise.all(
    wanted.map(async (sms) => ({ sms, answer: await provider.findSms(sms.provider_reference) })),
  )
  const found = answers.flatMap(({ sms, answer }) =>
    answer.kind === 'done' && answer.value !== null ? [{ sms, said: answer.value }] : [],
  )
  const unasked = answers.filter(({ answer }) => answer.kind !== 'done')
  const waits_ms = unasked.map(({ answer }) => (answer.kind === 'retry' ? (answer.after_ms ?? 0) : 0))
  const wait_ms = Math.max(UNASKED_MS, ...waits_ms)
  // It wants no more of us, or answers nobody; what is wrong with one alone holds up no others.
  const refuses =
    unasked.some(({ answer }) => answer.kind !== 'ambiguous') ||
    (unasked.length > 1 && unasked.length === wanted.length)
  if (refuses) await askLater(sql, unasked, wait_ms)
  if (found.length < wanted.length)
    log.info({ asked: wanted.length, found: found.length }, 'the provider does not tell of each SMS')
  const prices = found.flatMap(({ sms: { tenant_id, id }, said: { price } }) =>
    price === null ? [] : [{ tenant_id, id, price }],
  )
  if (prices.length > 0) await fillPrices(sql, prices)
  const news = found
    .filter(({ sms, said }) => said.status !== 'sending' && said.status !== sms.status)
    .map(({ sms, said }) => heard(sms, said, config.TWILIO_ACCOUNT_SID ?? ''))
  if (news.length > 0) await storeNotifications(sql, news)
  const failed = refuses || (wanted.length > 0 && unasked.length === wanted.length)
  const reason = failed ? reasonOf(unasked[0]!.answer) : null
  if (wanted.length > 0)
    await recordRun(sql, LOOKUPS, {
      failure: reason,
      duration_ms: performance.now() - started,
      next_s: (refuses ? wait_ms : LOOK_MS) / 1000,
    })
  else await postponeRun(sql, LOOKUPS, LOOK_MS / 1000)
  if (reason === null) return { due: taken, refused: null }
  log.warn({ reason }, 'the provider does not say what became of SMS')
  return { due: taken, refused: { wait_ms: refuses ? wait_ms : LOOK_MS, reason } }
}

function reasonOf(answer: Outcome<unknown>): string {
  if (answer.kind === 'declined') return answer.failure.message
  return answer.kind === 'done' ? '' : answer.reason
}

function heard({ id: message_id }: UnheardSms, said: ProviderSms, account: string): Arrival {
  const { reference, status, provider_status, failure } = said
  const payload: MessageNews = {
    about: 'sms',
    message_id,
    reference,
    status,
    provider_status,
    failure,
  }
  return {
    ...notificationOf(SMS.provider, {
      account,
      // Not that of the callback, which may have come before anybody knew whose it was, and was ignored.
      event_id: `${reference}:${provider_status}:asked`,
      kind: `sms.${provider_status}`,
      object_id: reference,
      payload,
      matters: true,
      said: null,
    }),
    rung: false,
    request_id: null,
  }
}
