// Opens the queue for commands, which neither send nor receive wake-ups.
import { queueConfig, type Config } from '#core/config.ts'
import { newId } from '#core/ids.ts'
import { openQueue, type Queue } from '#queue/queue.ts'
import type { FindAcceptedKeys } from '#queue/settings.ts'

/** Runs `work` with the queue, whose backend may not answer. `findAcceptedKeys`: see `QueueHooks`. */
export async function withQueue<T>(
  config: Config,
  work: (queue: Queue) => Promise<T>,
  findAcceptedKeys?: FindAcceptedKeys,
): Promise<T> {
  const queue = openQueue(queueConfig(config), {
    log: () => {},
    process_id: newId(),
    ...(findAcceptedKeys && { findAcceptedKeys }),
  })
  try {
    return await work(queue)
  } finally {
    await queue.close()
  }
}
