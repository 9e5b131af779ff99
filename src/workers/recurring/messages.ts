// Follows up sent messages: looks up SMS without a final report, and erases old texts.
import { SMS } from '#core/config/providers.ts'
import {
  postponeSmsLookups,
  fillPrices,
  claimUnreportedSms,
  type UnreportedSms,
} from '#domain/messages/unreported.ts'
import { postponeRun, recordRun } from '#domain/jobs/recurring.ts'
import { eraseOldTexts, deleteOldMessageCounts } from '#domain/messages/retention.ts'
import type { MessageProviderEvent } from '#domain/messages/update.ts'
import { discardHeldMessages, hasMessagesToDiscard } from '#domain/switches/release.ts'
import type { Outcome } from '#core/outcome.ts'
import { notificationOf } from '#domain/notifications/notification.ts'
import { storeNotifications, type Arrival } from '#domain/notifications/store.ts'
import type { ProviderSms, SmsProvider } from '#providers/sms.ts'
import { repeatWhileCurrent, RunError, together, type Loop, type MustEnd } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

/** The name of the lookups in the table of recurring work. */
const RUN_NAME = 'SMS lookups'
const POLL_INTERVAL_MS = 5_000
/** The maximum number of concurrent lookups. */
const LOOKUP_BATCH_SIZE = 20
/** The delay before the next lookups while the provider does not answer. A provider may demand a longer delay. */
const PROVIDER_PAUSE_MS = 60_000
/** The maximum number of rows per statement. */
const BATCH_SIZE = 500

/** Starts the lookups and the erasure; each step is safe in several workers at once. */
export function startMessageUpkeep(context: WorkerContext, retention_days: number): Loop {
  const { sql, database, idleness, sms } = context
  const poll_interval = idleness.interval(POLL_INTERVAL_MS)
  const repeatWhileFull = async (mustEnd: MustEnd, step: () => Promise<number>, at_once = BATCH_SIZE) => {
    while (!mustEnd() && (await step()) === at_once);
  }
  let refused_ms = 0
  return together([
    repeatWhileCurrent(context, 'texts of old messages', poll_interval, async (mustEnd) => {
      if (!database.isHeld())
        await repeatWhileFull(mustEnd, () => eraseOldTexts(sql, retention_days, BATCH_SIZE))
    }),
    repeatWhileCurrent(context, 'old counts of messages', poll_interval, (mustEnd) =>
      repeatWhileFull(mustEnd, () => deleteOldMessageCounts(sql, BATCH_SIZE)),
    ),
    repeatWhileCurrent(
      context,
      'messages to discard after a switch of the database',
      () => POLL_INTERVAL_MS,
      async (mustEnd) => {
        if (database.hasSwitched() && (await hasMessagesToDiscard(sql)))
          await repeatWhileFull(mustEnd, () => discardHeldMessages(sql, BATCH_SIZE))
      },
    ),
    ...(sms === null
      ? []
      : [
          repeatWhileCurrent(
            context,
            RUN_NAME,
            () => Math.max(refused_ms, poll_interval()),
            async (mustEnd) => {
              refused_ms = 0
              await repeatWhileFull(
                mustEnd,
                async () => {
                  const { due, refused } = await lookUpUnreported(context, sms)
                  if (refused === null) return due
                  refused_ms = refused.wait_ms
                  throw new RunError(refused.reason)
                },
                LOOKUP_BATCH_SIZE,
              )
            },
          ),
        ]),
  ])
}

/**
 * Looks up SMS that are due, and stores each new report in the same way as a callback. Returns how many SMS were due,
 * and how long to wait if the provider refuses further lookups.
 */
async function lookUpUnreported(
  { sql, log, config }: WorkerContext,
  provider: SmsProvider,
): Promise<{ due: number; refused: { wait_ms: number; reason: string } | null }> {
  const started = performance.now()
  const { claimed, to_look_up } = await claimUnreportedSms(sql, LOOKUP_BATCH_SIZE)
  const answers = await Promise.all(
    to_look_up.map(async (sms) => ({ sms, answer: await provider.findSms(sms.provider_reference) })),
  )
  const found = answers.flatMap(({ sms, answer }) =>
    answer.kind === 'done' && answer.value !== null ? [{ sms, reported: answer.value }] : [],
  )
  const failed_lookups = answers.filter(({ answer }) => answer.kind !== 'done')
  const waits_ms = failed_lookups.map(({ answer }) => (answer.kind === 'retry' ? (answer.after_ms ?? 0) : 0))
  const wait_ms = Math.max(PROVIDER_PAUSE_MS, ...waits_ms)
  // Whether the provider limits or refuses our lookups: then further lookups wait. A failure of a single lookup does
  // not stop the others.
  const refuses =
    failed_lookups.some(({ answer }) => answer.kind !== 'ambiguous') ||
    (failed_lookups.length > 1 && failed_lookups.length === to_look_up.length)
  if (refuses) await postponeSmsLookups(sql, failed_lookups, wait_ms)
  if (found.length < to_look_up.length)
    log.info(
      { requested: to_look_up.length, found: found.length },
      'the provider has not reported the status of every SMS that was looked up',
    )
  const prices = found.flatMap(({ sms: { tenant_id, id }, reported: { price } }) =>
    price === null ? [] : [{ tenant_id, id, price }],
  )
  if (prices.length > 0) await fillPrices(sql, prices)
  const arrivals = found
    .filter(({ sms, reported }) => reported.status !== 'sending' && reported.status !== sms.status)
    .map(({ sms, reported }) => lookupNotification(sms, reported, config.TWILIO_ACCOUNT_SID ?? ''))
  if (arrivals.length > 0) await storeNotifications(sql, arrivals)
  const failed = refuses || (to_look_up.length > 0 && failed_lookups.length === to_look_up.length)
  const reason = failed ? reasonOf(failed_lookups[0]!.answer) : null
  if (to_look_up.length > 0)
    await recordRun(sql, RUN_NAME, {
      failure: reason,
      duration_ms: performance.now() - started,
      next_s: (refuses ? wait_ms : POLL_INTERVAL_MS) / 1000,
    })
  else await postponeRun(sql, RUN_NAME, POLL_INTERVAL_MS / 1000)
  if (reason === null) return { due: claimed, refused: null }
  log.warn({ reason }, 'SMS lookups failed')
  return { due: claimed, refused: { wait_ms: refuses ? wait_ms : POLL_INTERVAL_MS, reason } }
}

function reasonOf(answer: Outcome<unknown>): string {
  if (answer.kind === 'declined') return answer.failure.message
  return answer.kind === 'done' ? '' : answer.reason
}

function lookupNotification(
  { id: message_id }: UnreportedSms,
  reported: ProviderSms,
  account: string,
): Arrival {
  const { reference, status, provider_status, failure } = reported
  const payload: MessageProviderEvent = {
    about: 'sms',
    message_id,
    reference,
    status,
    provider_status,
    failure,
  }
  return {
    ...notificationOf(
      { provider: SMS.provider, livemode: true },
      {
        account,
        // The id differs from the id of a callback with the same status: if the callback was ignored, because it
        // arrived before the message was known, the report is still stored.
        event_id: `${reference}:${provider_status}:lookup`,
        kind: `sms.${provider_status}`,
        object_id: reference,
        payload,
        is_relevant: true,
        reported: null,
      },
    ),
    will_wake: false,
    request_id: null,
  }
}
