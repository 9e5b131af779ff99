// The warning that lists of a provider cannot be read.
import { PROVIDER_FACTS } from '#core/config/providers.ts'
import { throttle } from '#core/seldom.ts'
import { adviceText } from '#domain/operations/outage-texts.ts'
import type { WorkerContext } from '../context.ts'

/** The minimum time between two warnings. */
const INTERVAL_MS = 60_000

/** `list`: the name of the list; `events` for the list of events. */
export type ListFailure = {
  list: string
  outcome: 'declined' | 'retry' | 'ambiguous' | 'misconfigured'
  reason: string
}
/** `waived`: nothing waits for the lists since a switch of the database, although they have not been read. */
const WAITING_TEXTS = {
  none: '',
  awaited: '. Jobs may wait for this: see npm run recover -- status',
  waived: '. Nothing waits for this, because an operator has decided so: see npm run recover -- status',
}
export type ListWarning = (failures: ListFailure[]) => void

/**
 * Logs which lists of the provider could not be read, with the variables to check: at most one line a minute for all
 * lists. `waitingFor`: whether jobs may wait for them.
 */
export function createListWarning(
  { log, config }: WorkerContext,
  provider: string,
  waitingFor: () => keyof typeof WAITING_TEXTS,
): ListWarning {
  const title = PROVIDER_FACTS[provider]?.title ?? provider
  return throttle((suppressed, failures: ListFailure[]) => {
    const names = new Intl.ListFormat('en').format(failures.map(({ list }) => list))
    const outcomes = failures.map(({ outcome }) => outcome).filter((outcome) => outcome !== 'declined')
    const advice = outcomes[0] === undefined ? '' : adviceText(provider, outcomes[0], config)
    log.warn(
      { provider, failures, suppressed },
      `the ${names} of ${title} could not be read${advice}${WAITING_TEXTS[waitingFor()]}`,
    )
  }, INTERVAL_MS)
}
