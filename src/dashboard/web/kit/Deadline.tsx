// Deadlines: relative to the clock of the page, which may be ahead of the real time in test mode.
import { useClockNow, useProcessorNow } from '../sandbox/clock.ts'
import { Instant } from './Instant.tsx'

type DeadlineProps = { at: string | null | undefined; none?: string }

/** A time at which work becomes due, such as the next attempt of a delivery. */
export function Deadline(props: DeadlineProps) {
  return <Instant {...props} now={useClockNow()} />
}

/** A time at which the processor ends something: a hold, or the time to respond to a dispute. */
export function ProcessorDeadline(props: DeadlineProps) {
  return <Instant {...props} now={useProcessorNow()} />
}
