// Faults after which the processes work with another database than before: restores, rolled back volumes, and standbys
// that are promoted.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from './fault.ts'

const usual = { switches: true, duration_ms: 15_000, recovery_limit_ms: 10_000 } as const

export const SWITCH_FAULTS: Fault[] = [
  {
    ...usual,
    name: 'failover-sync',
    about: 'PostgreSQL crashes, and a synchronous standby takes its place',
    minutes: 30,
    async inflict({ restorable, moveDatabase }, random) {
      const standby = await restorable!.startStandby({ synchronous: true })
      await sleep(random.between(1000, 5000))
      await restorable!.postgres.crash()
      await standby.promote()
      moveDatabase(standby.url)
    },
  },
]
