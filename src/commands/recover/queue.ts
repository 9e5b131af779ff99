// Opens the queue for commands, which neither send nor receive wake-ups.
import { queueConfig, type Config } from '#core/config.ts'
import { newId } from '#core/ids.ts'
import { openQueue, type Queue } from '#queue/queue.ts'

/** Runs `work` with the queue, whose backend may not answer. */
export async function withQueue<T>(config: Config, work: (queue: Queue) => Promise<T>): Promise<T> {
  const queue = openQueue(queueConfig(config), { log: () => {}, process_id: newId() })
  try {
    return await work(queue)
  } finally {
    await queue.close()
  }
}
