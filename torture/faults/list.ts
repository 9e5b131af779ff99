// All faults by name.
import type { Fault } from './fault.ts'
import { LOG_FAULTS } from './logs.ts'
import { MESSAGE_FAULTS } from './messages.ts'
import { OUTAGE_FAULTS } from './outages.ts'
import { POSTGRES_FAULTS } from './postgres.ts'
import { PROCESS_FAULTS } from './processes.ts'
import { PROVIDER_FAULTS } from './provider.ts'
import { RECEIVER_FAULTS } from './receivers.ts'
import { REDIS_FAULTS } from './redis.ts'
import { SWITCH_FAULTS } from './switches.ts'
import { TIME_FAULTS } from './time.ts'
import { REFUSAL_FAULTS } from './refusals.ts'
import { VERSION_FAULTS } from './versions.ts'

export const FAULTS: Fault[] = [
  ...PROCESS_FAULTS,
  ...REDIS_FAULTS,
  ...POSTGRES_FAULTS,
  ...PROVIDER_FAULTS,
  ...MESSAGE_FAULTS,
  ...RECEIVER_FAULTS,
  ...TIME_FAULTS,
  ...OUTAGE_FAULTS,
  ...REFUSAL_FAULTS,
  ...VERSION_FAULTS,
  ...LOG_FAULTS,
  ...SWITCH_FAULTS,
]
