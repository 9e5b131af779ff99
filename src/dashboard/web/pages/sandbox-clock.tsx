// Sandbox, Clock: moves the time of test mode forward.
import { Button, NativeSelect, TextInput } from '@mantine/core'
import { FastForward } from 'lucide-react'
import { useState } from 'react'
import { useDialogs } from '../dialogs.ts'
import { ActResultText } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts } from '../kit/Facts.tsx'
import { formatDuration, formatInstant, useNow } from '../kit/Instant.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { ErrorState } from '../kit/states.tsx'
import { advanceClock, clockOffset, refreshClock, useTestClock, type TestClock } from '../sandbox/clock.ts'
import { SANDBOX_TEXT, SandboxTabs } from '../sandbox/SandboxTabs.tsx'
import { useMay } from '../session.tsx'

const HOUR_MS = 3_600_000
const STEPS = [
  { label: 'An hour', ms: HOUR_MS },
  { label: 'A day', ms: 24 * HOUR_MS },
  { label: 'A week', ms: 7 * 24 * HOUR_MS },
  { label: '30 days', ms: 30 * 24 * HOUR_MS },
]
const OTHER = 'To a time'

export function SandboxClockPage() {
  const query = useTestClock()
  const { data: clock, error, refetch } = query
  const may_advance = useMay('advanceTestClock')
  const { opening, begin, props } = useDialogs<'advance'>()
  return (
    <>
      <PageHeader
        title="Clock · Sandbox"
        heading="Clock of test mode"
        description={SANDBOX_TEXT}
        read={query}
        actions={
          may_advance &&
          clock?.status === 'ready' && (
            <Button variant="filled" leftSection={<FastForward size={14} />} onClick={() => begin('advance')}>
              Advance clock
            </Button>
          )
        }
      />
      <SandboxTabs active="/sandbox/clock">
        {error !== null && clock === undefined ? (
          <ErrorState error={error} retry={refetch} />
        ) : (
          <ClockFacts clock={clock} read_at={query.dataUpdatedAt} />
        )}
      </SandboxTabs>
      {clock && (
        <div key={opening}>
          <AdvanceDialog clock={clock} {...props('advance')} />
        </div>
      )}
    </>
  )
}

function ClockFacts({ clock, read_at }: { clock: TestClock | undefined; read_at: number }) {
  const now = useNow()
  return (
    <div className="stack">
      <p className="dim">
        Holds expire, scheduled messages are sent, deliveries are retried and payouts arrive when the clock
        reaches their time. It never goes back.
      </p>
      <Facts
        of={clock}
        facts={{
          Now: ({ now: read_now }) =>
            formatInstant(new Date(Date.parse(read_now) + Math.max(0, now - read_at)).toISOString()),
          'Ahead by': (read_clock) => {
            const offset_ms = clockOffset(read_clock, read_at)
            return offset_ms === 0 ? 'Nothing' : formatDuration(offset_ms)
          },
          Advancing: ({ advance_to }) => advance_to !== null && `To ${formatInstant(advance_to)}`,
          'Deadlines ahead': ({ status, remaining }) =>
            status === 'advancing' && remaining !== null && remaining.toLocaleString(),
        }}
      />
    </div>
  )
}

function AdvanceDialog({ clock, ...dialog }: { clock: TestClock; opened: boolean; onClose: () => void }) {
  const [step, setStep] = useState(STEPS[1]!.label)
  const [time, setTime] = useState('')
  // While the dialog shows the result, the page reads the clock again.
  const [now] = useState(clock.now)
  const ms = STEPS.find(({ label }) => label === step)?.ms
  const advance_to =
    ms === undefined
      ? time === ''
        ? undefined
        : new Date(time).toISOString()
      : new Date(Date.parse(now) + ms).toISOString()
  return (
    <ConfirmDialog
      {...dialog}
      title="Advance the clock of test mode?"
      action="Advance clock"
      effect={
        advance_to === undefined
          ? 'Everything that becomes due runs in its order, with its events. The clock never goes back.'
          : `The clock moves to ${formatInstant(advance_to)}. Everything that becomes due runs in its order, with its events. The clock never goes back.`
      }
      ready={advance_to !== undefined}
      missing="Choose a time."
      act={() => advanceClock(advance_to ?? now)}
      unknown="It is unknown whether the clock was advanced. Look at its time before you repeat it."
      onSettled={refreshClock}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The clock advances. This page shows when it is ready.
        </ActResultText>
      )}
    >
      {(errorOf) => (
        <>
          <NativeSelect
            label="Advance"
            data={[...STEPS.map(({ label }) => label), OTHER]}
            value={step}
            onChange={(event) => setStep(event.currentTarget.value)}
            error={ms === undefined ? undefined : errorOf('advance_to')}
            data-autofocus
          />
          {ms === undefined && (
            <TextInput
              type="datetime-local"
              label="Time"
              value={time}
              error={errorOf('advance_to')}
              onChange={(event) => setTime(event.currentTarget.value)}
            />
          )}
        </>
      )}
    </ConfirmDialog>
  )
}
