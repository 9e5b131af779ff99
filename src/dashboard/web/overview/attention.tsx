// The list of what needs attention. Each item has a count and a time, and links to the act that resolves it.
import { Link } from '@tanstack/react-router'
import {
  CalendarX2,
  ChevronRight,
  CircleCheck,
  CircleHelp,
  FileCheck2,
  Gavel,
  Hourglass,
  PlugZap,
  Scale,
  ShieldQuestion,
  Unplug,
  Webhook,
  type LucideIcon,
} from 'lucide-react'
import type { AddressSearch } from '../address.ts'
import type { Answers } from '../generated/answers.ts'
import { Skeleton } from '../kit/Skeleton.tsx'
import { ProcessorDeadline } from '../kit/Deadline.tsx'
import { Instant } from '../kit/Instant.tsx'
import { humanize } from '../kit/statuses.ts'
import { resourceCount } from '../resources.ts'
import { useProcessorOffset } from '../sandbox/clock.ts'
import { useSession } from '../session.tsx'

type AttentionItem = Answers['GET /overview']['attention'][number]

type OutageItem = AttentionItem & { outage: NonNullable<AttentionItem['outage']> }

type KindTexts = {
  icon: LucideIcon
  one: string
  many: string
  /** The label of `oldest_at`. */
  since: string
  /** The label of the act. */
  act: string
  /** The paths of one row's page and of the list of all rows. */
  item_path: string
  list_path: string
  /** The filters of the list. `now`: the time of the processor's clock in ms. */
  search?: (now: number) => AddressSearch
  /** The operation of the act. Users who may not call it get the label `VIEW`. */
  operation?: string
  operators_only?: boolean
}

/** The label for users who may not perform the act, and for items without an act on these pages. */
const VIEW = 'See'
const DAY_MS = 86_400_000

const KINDS: Record<Exclude<AttentionItem['kind'], 'provider_outage'>, KindTexts> = {
  hold_lapses: {
    icon: Hourglass,
    one: 'hold lapses within a day',
    many: 'holds lapse within a day',
    since: 'the first',
    act: 'Capture or cancel',
    item_path: '/payments/',
    list_path: '/payments',
    search: (now) => ({
      status: 'authorized',
      capture_before_to: new Date(now + DAY_MS).toISOString(),
    }),
    operation: 'capturePayment',
  },
  effect_unknown: {
    icon: CircleHelp,
    one: 'effect at a provider is unknown',
    many: 'effects at a provider are unknown',
    since: 'the oldest',
    act: 'Decide',
    item_path: '/ops/jobs/',
    list_path: '/ops/jobs',
    search: () => ({ state: 'unknown' }),
    operators_only: true,
  },
  drift: {
    icon: Scale,
    one: 'difference between the books and the processor',
    many: 'differences between the books and the processor',
    since: 'the oldest',
    act: 'See the difference',
    item_path: '',
    list_path: '/ops/drifts',
    operators_only: true,
  },
  schedule_failing: {
    icon: CalendarX2,
    one: 'schedule fails',
    many: 'schedules fail',
    since: 'the first',
    act: 'See the reason',
    item_path: '',
    list_path: '/ops/schedules',
    operators_only: true,
  },
  proposal_undecided: {
    icon: FileCheck2,
    one: 'proposal waits for a second operator',
    many: 'proposals wait for a second operator',
    since: 'the oldest',
    act: 'See the proposals',
    item_path: '',
    list_path: '/ops/proposals',
    operators_only: true,
  },
  deliveries_failed: {
    icon: Webhook,
    one: 'event was not delivered in the last day',
    many: 'events were not delivered in the last day',
    since: 'the oldest',
    act: 'Deliver again',
    operation: 'replayWebhookDelivery',
    item_path: '/webhooks/',
    list_path: '/webhooks',
  },
  endpoint_disabled: {
    icon: Unplug,
    one: 'webhook endpoint is disabled',
    many: 'webhook endpoints are disabled',
    since: 'the oldest',
    act: 'Enable',
    operation: 'updateWebhookEndpoint',
    item_path: '/webhooks/',
    list_path: '/webhooks',
  },
  endpoint_failing: {
    icon: Webhook,
    one: 'webhook endpoint fails every delivery',
    many: 'webhook endpoints fail every delivery',
    since: 'the oldest',
    act: 'See the failures',
    item_path: '/webhooks/',
    list_path: '/webhooks',
  },
  verification_open: {
    icon: ShieldQuestion,
    one: 'identity check failed',
    many: 'identity checks failed',
    since: 'the first',
    act: 'Renew the link or decide',
    item_path: '/compliance/',
    list_path: '/compliance',
    search: () => ({ status: 'requires_input' }),
    operation: 'decideKyc',
  },
  dispute_needs_response: {
    icon: Gavel,
    one: 'dispute needs your response',
    many: 'disputes need your response',
    since: 'the oldest',
    act: VIEW,
    item_path: '/disputes/',
    list_path: '/disputes',
    search: () => ({ status: 'needs_response' }),
  },
}

export function AttentionList({ of }: { of: Answers['GET /overview'] | undefined }) {
  const items = of?.attention
  return (
    <section className="section">
      <h2>Needs attention</h2>
      {items === undefined && (
        <div className="stack" aria-busy="true">
          {['68%', '54%', '60%'].map((width) => (
            <Skeleton key={width} width={width} height={16} />
          ))}
        </div>
      )}
      {items?.length === 0 && (
        <p className="attention-empty">
          <CircleCheck size={16} aria-hidden /> Nothing needs your attention.
        </p>
      )}
      {of !== undefined && of.attention.length > 0 && (
        <ul className="attention" aria-label="Needs attention">
          {of.attention.map((item) => (
            <li key={`${item.kind} ${item.outage?.text ?? ''}`}>
              {hasOutage(item) ? <OutageRow item={item} /> : <AttentionRow item={item} as_of={of.as_of} />}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function AttentionRow({ item, as_of }: { item: AttentionItem; as_of: string }) {
  const { is_operator, may } = useSession()
  const offset_ms = useProcessorOffset()
  const { kind, count, is_more, oldest_at, examples } = item
  // A page that was loaded before a deployment has no texts for the kinds that the deployment has added.
  const texts = kind === 'provider_outage' ? undefined : (KINDS[kind] as KindTexts | undefined)
  if (texts === undefined) return `${count.toLocaleString()}: ${humanize(kind)}. Reload the page.`
  const { icon: Icon, since, item_path, list_path, operation } = texts
  const act = operation === undefined || may.includes(operation) ? texts.act : VIEW
  const text = (
    <>
      <Icon size={16} aria-hidden />
      <span className="attention-text">
        <strong className="figures">
          {count.toLocaleString()}
          {is_more && ' or more'}
        </strong>{' '}
        {count === 1 ? texts.one : texts.many}
      </span>
    </>
  )
  const when = (
    <span className="attention-when dim">
      {since} {kind === 'hold_lapses' ? <ProcessorDeadline at={oldest_at} /> : <Instant at={oldest_at} />}
    </span>
  )
  if (texts.operators_only === true && !is_operator)
    return (
      <div className="attention-row">
        {text}
        {when}
        <span className="attention-act dim">An operator settles this</span>
      </div>
    )
  const [first] = examples
  const is_one = item_path !== '' && first !== undefined && examples.length === 1
  return (
    <div className="attention-row">
      <Link
        to={is_one ? `${item_path}${first}` : list_path}
        search={is_one ? {} : (texts.search?.(Date.parse(as_of) + offset_ms) ?? {})}
        className="row-link"
        data-row
      >
        {text}
        <span className="visually-hidden">: {act}</span>
      </Link>
      {when}
      <span className="attention-act" aria-hidden>
        {act} <ChevronRight size={14} />
      </span>
    </div>
  )
}

const hasOutage = (item: AttentionItem): item is OutageItem => item.outage !== null

/** An outage of a provider: the resources that wait for its end, and how long they have waited. */
function OutageRow({ item: { outage, oldest_at, is_more } }: { item: OutageItem }) {
  const { is_operator } = useSession()
  const waiting = outage.waiting.map(({ resource, count }) => resourceCount(count, resource))
  const total = outage.waiting.reduce((sum, { count }) => sum + count, 0)
  const text = (
    <>
      <PlugZap size={16} aria-hidden />
      <span className="attention-text">
        <span>
          <strong>{outage.text}</strong>
          {total > 0 && (
            <>
              : <span className="figures">{LISTED.format(waiting)}</span>
              {is_more && ' or more'} {total === 1 ? 'waits' : 'wait'}
            </>
          )}
        </span>
      </span>
    </>
  )
  const when = (
    <span className="attention-when dim">
      since <Instant at={oldest_at} />
    </span>
  )
  if (!is_operator)
    return (
      <div className="attention-row">
        {text}
        {when}
        <span className="attention-act dim">An operator settles this</span>
      </div>
    )
  return (
    <div className="attention-row">
      <Link to="/ops/providers" className="row-link" data-row>
        {text}
        <span className="visually-hidden">: See the provider</span>
      </Link>
      {when}
      <span className="attention-act" aria-hidden>
        See the provider <ChevronRight size={14} />
      </span>
    </div>
  )
}

const LISTED = new Intl.ListFormat('en', { type: 'conjunction' })
