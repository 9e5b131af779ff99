// All measures, in the order in which they run.
import { backlog } from './backlog.ts'
import { captures } from './captures.ts'
import { customers } from './customers.ts'
import { dashboard } from './dashboard.ts'
import { events } from './events.ts'
import { growth } from './growth.ts'
import { life } from './life.ts'
import { list } from './list.ts'
import type { Measure } from './measure.ts'
import { messages } from './messages.ts'
import { payouts } from './payouts.ts'
import { queue } from './queue.ts'
import { snapshot } from './snapshot.ts'
import { start } from './start.ts'
import { webhooks } from './webhooks.ts'

export const MEASURES: Measure[] = [
  customers,
  list,
  captures,
  life,
  payouts,
  messages,
  webhooks,
  events,
  backlog,
  queue,
  start,
  growth,
  dashboard,
  snapshot,
]
