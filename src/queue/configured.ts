// Opens the queue of a process as configured, with the log and metrics of the process.
import { queueConfig, type Config } from '#core/config.ts'
import { newId } from '#core/ids.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { openQueue, type Queue } from './queue.ts'

/** Opens the queue that `config` names. */
export function openConfiguredQueue(config: Config, log: Log): Queue {
  return openQueue(queueConfig(config), {
    process_id: newId(),
    log: (level, fields, message) => log[level](fields, message),
    onDrop: (wakeups) => metrics.wakeupsDropped.inc(wakeups),
    onUnrecorded: (requests) => metrics.requestsUnrecorded.inc(requests),
  })
}
