// Faults of event receivers: the good receiver is down; a worker dies after a delivery and before it has recorded the
// result.
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '#test/process.ts'
import type { System } from '../system.ts'
import type { Fault } from './fault.ts'
import { findPerformer } from './processes.ts'

export const RECEIVER_FAULTS: Fault[] = [
  {
    name: 'receiver-down',
    about:
      'the good event receiver is down: all events are sent when it is back, and other endpoints do not wait',
    duration_ms: 5000,
    recovery_limit_ms: 6000,
    inflict: ({ receivers }, random) => receivers.whileDown(() => sleep(random.between(2000, 4000))),
  },
  {
    name: 'kill-after-post',
    about:
      'kill -9 of a worker whose delivery has arrived, before it recorded it: the same event is repeated first',
    duration_ms: 4500,
    recovery_limit_ms: 6000,
    inflict: killAfterPost,
  },
]

async function killAfterPost(system: System): Promise<void> {
  const { receivers, tenant_id } = system
  const endpoint = [...receivers.endpoints.values()].find(
    (each) => each.tenant_id === tenant_id && each.ordered && each.name.startsWith('good'),
  )!
  const event_id = await receivers.withholdAnswer(endpoint.name)
  const { worker } = await findPerformer(system, endpoint.id, 0, 'deliveries')
  await worker.kill()
  await worker.start()
  await until('the event arrived again', () => {
    const arrivals = receivers.arrivals.filter(
      (each) => each.endpoint === endpoint.name && each.event_id === event_id,
    )
    return arrivals.length > 1
  })
}
