// After a switch of the database, reads the texts that the provider of SMS received since then: the database may have
// lost opt-outs and replies.
import { z } from 'zod'
import { requireVariable } from '#core/config.ts'
import { metrics } from '#core/metrics.ts'
import { endRun, failRun, renewRun, runIfDue, type Run } from '#domain/jobs/recurring.ts'
import { createInboundVault, inboundNotification } from '#domain/messages/inbound.ts'
import { storeNotifications } from '#domain/notifications/store.ts'
import { clearFailingList, recordFailingList } from '#domain/reconciliation/failing-lists.ts'
import {
  findUnreadOptOuts,
  RECEIVED_SMS,
  recordOptOutsRead,
  type UnreadOptOuts,
} from '#domain/switches/opt-outs.ts'
import type { ReceivedSms, SmsProvider } from '#providers/sms.ts'
import { repeatWhileCurrent, RunError, type Loop, type MustEnd } from '../clock.ts'
import type { WorkerContext } from '../context.ts'
import { createListWarning, type ListWarning } from './list-warning.ts'

/** The name of the reading in the table of recurring work. */
const RUN_NAME = RECEIVED_SMS.list
const INTERVAL_MS = 1_000
const RETRY_S = 5
const MAX_PAGES_PER_RUN = 50

const readingPosition = z.object({
  /** Everything was read for the switches up to this number. */
  read_for: z.int(),
  /** The reading of which only some pages have been read. */
  reading: z.object({ for: z.int(), from_s: z.int(), next: z.string().nullable() }).nullable(),
})
type OptOutsPosition = z.output<typeof readingPosition>

/** Starts the reading; one worker at a time reads. Without a provider of SMS, nothing is read. */
export function startOptOutReader(context: WorkerContext): Loop {
  const { sql, database, sms } = context
  let is_waived = false
  const warnOfFailing = createListWarning(context, RECEIVED_SMS.provider, () =>
    is_waived ? 'waived' : 'awaited',
  )
  return repeatWhileCurrent(
    context,
    RUN_NAME,
    () => INTERVAL_MS,
    async (mustEnd) => {
      if (sms === null || !database.hasSwitched()) return
      const unread = await findUnreadOptOuts(sql, RUN_NAME)
      metrics.jobsHeld.set({ hold: 'sms' }, unread?.awaits_failing_list === true ? 1 : 0)
      if (unread === undefined) return
      is_waived = unread.is_waived
      await recordOptOutsRead(sql, RUN_NAME, RECEIVED_SMS.provider)
      if (unread.read_for >= unread.number) return
      await runIfDue(sql, RUN_NAME, (run) => readTexts(context, sms, { unread, mustEnd, warnOfFailing }, run))
    },
  )
}

async function readTexts(
  context: WorkerContext,
  sms: SmsProvider,
  { unread, mustEnd, warnOfFailing }: { unread: UnreadOptOuts; mustEnd: MustEnd; warnOfFailing: ListWarning },
  run: Run,
): Promise<void> {
  const { sql } = context
  let position: OptOutsPosition = readingPosition.safeParse(run.position).data ?? {
    read_for: 0,
    reading: null,
  }
  if (position.read_for < unread.number && position.reading?.for !== unread.number)
    position = { ...position, reading: { for: unread.number, from_s: unread.from_s, next: null } }
  for (let pages = 0; position.reading !== null && pages < MAX_PAGES_PER_RUN; pages++) {
    const { from_s, next } = position.reading
    const page = await sms.listReceived({ from_s, page: next })
    if (page.kind !== 'done') {
      const reason = page.kind === 'declined' ? page.failure.message : page.reason
      warnOfFailing([{ list: RECEIVED_SMS.list, outcome: page.kind, reason }])
      await recordFailingList(sql, { ...RECEIVED_SMS, error: reason })
      // The page may be gone: the list is read again from the start.
      const restarted = { ...position, reading: { ...position.reading, next: null } }
      await failRun(sql, run, { reason, position: restarted, next_s: RETRY_S })
      throw new RunError(reason)
    }
    await store(context, page.value)
    position =
      page.value.next === null
        ? { read_for: position.reading.for, reading: null }
        : { ...position, reading: { ...position.reading, next: page.value.next } }
    // Another worker reads the remaining pages.
    if (mustEnd() || !(await renewRun(sql, run, position))) break
  }
  if (position.reading === null) await clearFailingList(sql, RECEIVED_SMS)
  await endRun(sql, run, { position, next_s: 0 })
}

/** Stores received texts like notifications. A text that was also received by the webhooks host is stored once. */
async function store(
  { sql, log, config, hashOf }: WorkerContext,
  { received, unreadable }: { received: ReceivedSms[]; unreadable: number },
): Promise<void> {
  if (unreadable > 0) {
    metrics.receivedSmsSkipped.inc(unreadable)
    log.error(
      { texts: unreadable },
      'received SMS in the list of the provider lack their number, text or time and were skipped: look for opt-outs among them at the provider',
    )
  }
  if (received.length === 0) return
  const vault = createInboundVault(requireVariable(config, 'ADDRESS_KEY'))
  const notifications = received.map((text) => ({
    ...inboundNotification({ vault, hashOf }, { ...text, livemode: true }),
    will_wake: false,
    request_id: null,
  }))
  const stored = await storeNotifications(sql, notifications)
  if (stored.length > 0)
    log.warn({ texts: stored.length }, 'received SMS that the database lacked were read from the provider')
}
