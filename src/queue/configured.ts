// Opens the queue of a process as configured, with the log and metrics of the process.
import { queueConfig, type Config } from '#core/config.ts'
import { newId } from '#core/ids.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { openQueue, type Queue } from './queue.ts'
import type { FindAcceptedKeys } from './settings.ts'

/** Opens the queue that `config` names. `findAcceptedKeys`: see `QueueHooks`. */
export function openConfiguredQueue(config: Config, log: Log, findAcceptedKeys?: FindAcceptedKeys): Queue {
  return openQueue(queueConfig(config), {
    process_id: newId(),
    log: (level, fields, message) => log[level](fields, message),
    ...(findAcceptedKeys && { findAcceptedKeys }),
    onDrop: (wakeups) => metrics.wakeupsDropped.inc(wakeups),
    onUnrecorded: (requests) => metrics.requestsUnrecorded.inc(requests),
  })
}
