// Loaded before the program. The kernel drops a signal for which process 1 has no handler: until the program has its
// own, and in commands that have none, SIGINT and SIGTERM end the process here.
import { constants } from 'node:os'

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    if (process.listenerCount(signal) === 1) process.exit(128 + constants.signals[signal])
  })
