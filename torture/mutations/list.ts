// Each mutation removes one protection in a copy of the sources. The torture must find the problem that the mutation
// names.
import { UNEXPLAINED } from '../history/check.ts'
import { EVENT_LOST, OVERTAKEN } from '../verdict/deliveries.ts'
import { FEED_GAP } from '../events/follower.ts'
import { SENT_TWICE } from '../verdict/messages.ts'
import { OVERDRAWN } from '../verdict/money.ts'
import { OVERRULED } from '../verdict/opt-outs.ts'
import type { Mutation } from './mutation.ts'
import { SWITCH_MUTATIONS } from './switches.ts'

export const MUTATIONS: Mutation[] = [
  {
    name: 'fencing',
    about: 'a settlement does not check its token',
    expect: 'a late write changed something',
    faults: ['stop-worker'],
    patches: [
      {
        file: 'src/domain/jobs/settle.ts',
        from: "where j.id = s.job_id and j.lease_token = s.lease_token and (s.state <> 'running' or j.lease_until > now())\n        for update",
        to: 'where j.id = s.job_id\n        for update',
      },
    ],
  },
  {
    name: 'provider-key',
    about: 'each attempt sends its own key',
    expect: 'a payment was authorized twice',
    faults: ['provider-lost'],
    patches: [
      {
        file: 'src/domain/jobs/claim.ts',
        from: "'generation', generation, 'key', key,",
        to: "'generation', generation, 'key', key || '/' || attempt,",
      },
    ],
  },
  {
    name: 'direct-claim',
    about: 'workers claim jobs only after wake-ups',
    expect: 'a due job was not claimed',
    faults: ['flushall', 'kill-worker'],
    patches: [
      {
        file: 'src/workers/sweep.ts',
        from: 'await findDue(context.sql, scans, options)',
        to: 'await Promise.resolve<Awaited<ReturnType<typeof findDue>>>([])',
      },
    ],
  },
  {
    name: 'guard',
    about: 'a capture or cancellation does not check the status of the payment',
    expect: 'a payment was captured by two requests',
    faults: ['provider-slow'],
    patches: [
      {
        file: 'src/domain/payments/request.ts',
        from: 'p.id = a.payment_id and ${guard} for update',
        to: "p.id = a.payment_id and p.status in ('authorized', 'capturing') for update",
      },
    ],
  },
  {
    name: 'refund-guard',
    about: 'a refund checks no remaining amount, and no constraint does either',
    expect: 'refunds were accepted for more than was captured',
    faults: ['provider-slow'],
    patches: [
      {
        file: 'src/domain/refunds/request.ts',
        from: "and p.status = 'captured'\n          and p.amount_refund_reserved_minor + coalesce(a.amount_minor, 1) <= p.amount_captured_minor\n        for update",
        to: "and p.status = 'captured'\n        for update",
      },
      {
        file: 'migrations/0003_payments.sql',
        from: 'amount_refunded_minor <= amount_refund_reserved_minor\n      and amount_refund_reserved_minor <= amount_captured_minor)',
        to: 'amount_refunded_minor <= amount_refund_reserved_minor)',
      },
    ],
  },
  {
    name: 'reservation',
    about: 'a payout does not check the available balance',
    expect: OVERDRAWN,
    faults: ['provider-slow'],
    patches: [
      {
        file: 'src/domain/ledger.ts',
        from: 'amounts[step + 1] <= left_minor, left_minor,',
        to: 'true, left_minor,',
      },
    ],
  },
  {
    name: 'late-return',
    about: 'the return of a paid payout is not posted',
    expect: 'the paid amount differs',
    faults: ['kill-worker'],
    patches: [
      {
        file: 'src/domain/payouts/settle.ts',
        from: 'from p where returned_minor > returned_before`',
        to: 'from p where false`',
      },
    ],
  },
  {
    name: 'unique-key',
    about: 'the id of a notification is not derived from the id of its event',
    expect: 'a notification was stored twice',
    faults: ['kill-worker'],
    patches: [
      {
        file: 'src/domain/notifications/notification.ts',
        from: ', account, event_id)',
        to: ', account, event_id, String(performance.now()))',
      },
    ],
  },
  {
    name: 'resend-unknown',
    about: 'a message that may have been sent is sent again instead of looked up',
    expect: SENT_TWICE,
    faults: ['kill-after-send'],
    patches: [
      {
        file: 'src/workers/handlers/messages/sending.ts',
        from: '(await sender.lookUp(context, job, message))',
        to: '(await attempt(context, job, sender, { message, files }))',
      },
    ],
  },
  {
    name: 'sequence',
    about: 'an event gets its sequence number when it is written, not when all earlier ones are readable',
    expect: FEED_GAP,
    faults: ['slow-commits'],
    patches: [
      {
        file: 'migrations/0037_event_outbox.sql',
        from: '  trace_context text,\n  primary key',
        to: "  trace_context text,\n  number bigint default nextval('event_numbers'),\n  primary key",
      },
      {
        file: 'migrations/0037_event_outbox.sql',
        from: 'create table event_outbox (',
        to: 'create sequence event_numbers;\ncreate table event_outbox (',
      },
      {
        file: 'migrations/0037_event_outbox.sql',
        from: '((select l.sequences from last l) ->> p.tenant_id::text)::bigint - p.of_tenant + p.nth as sequence',
        to: 'p.number as sequence',
      },
      {
        file: 'migrations/0037_event_outbox.sql',
        from: 'o.event_id, o.type, o.trace_context from event_outbox o',
        to: 'o.event_id, o.type, o.trace_context, o.number from event_outbox o',
      },
    ],
  },
  {
    name: 'delivery-record',
    about: 'a delivery is settled before it is sent',
    expect: EVENT_LOST,
    faults: ['receiver-down'],
    patches: [
      {
        file: 'src/workers/handlers/deliveries/jobs.ts',
        from: "    if (delivery.stored === null && delivery.sample === null) return endUnsent(delivery, how, 'exhausted')",
        to: `    if (delivery.stored === null && delivery.sample === null) return endUnsent(delivery, how, 'exhausted')
    await context.sql\`
      update webhook_deliveries set status = 'delivered', delivered_at = now(), next_attempt_at = null
      where tenant_id = \${tenant_id} and id = \${delivery.id} and created_at = \${delivery.created_at}\``,
      },
    ],
  },
  {
    name: 'ordered-window',
    about: 'an ordered endpoint is sent several events at once',
    expect: OVERTAKEN,
    faults: ['receiver-down'],
    patches: [
      {
        file: 'src/domain/deliveries/backlogs.ts',
        from: 'case when p.ordered or p.failing_since <',
        to: 'case when p.failing_since <',
      },
    ],
  },
  {
    name: 'pause-check',
    about: 'a claim does not check whether the queue is paused',
    expect: 'a provider call started more than 1 s after the pause',
    faults: ['pause-flushall'],
    patches: [
      {
        file: 'src/domain/jobs/claim.ts',
        from: 'select from only pauses p where (p.queue is null or p.queue = j.queue)',
        to: 'select from only pauses p where false and (p.queue is null or p.queue = j.queue)',
      },
    ],
  },
  {
    name: 'last-word',
    about: 'the opt-out keyword that is processed last counts, not the one that was received last',
    expect: OVERRULED,
    faults: ['late-keywords'],
    patches: [
      {
        file: 'src/domain/messages/receive.ts',
        from: 'where (excluded.received_at, excluded.fact_id) > (w.received_at, w.fact_id)`\n}',
        to: 'where excluded.fact_id <> w.fact_id`\n}',
      },
    ],
  },
  {
    name: 'stale-read',
    about: 'each API answers with a payment that it read up to two seconds ago',
    expect: UNEXPLAINED,
    faults: ['provider-slow'],
    patches: [
      {
        file: 'src/api/routes/payments/read.ts',
        from: 'const MAX_METADATA_FILTERS = 20',
        to: `const MAX_METADATA_FILTERS = 20
const cache = new Map<string, { until: number; found: any }>()`,
      },
      {
        file: 'src/api/routes/payments/read.ts',
        from: `    async ({ credentials: { tenant_id }, params: { id } }) =>
      (await find({ tenant_id, id, job_id: null })).resource,`,
        to: `    async ({ credentials: { tenant_id }, params: { id } }) => {
      const before = cache.get(tenant_id + id)
      if (before !== undefined && performance.now() < before.until) return before.found
      const found = (await find({ tenant_id, id, job_id: null })).resource
      cache.set(tenant_id + id, { until: performance.now() + 2000, found })
      return found
    },`,
      },
    ],
  },
  ...SWITCH_MUTATIONS,
]
