// The active pauses, each with its author, its reason and a button that ends it.
import { Button } from '@mantine/core'
import { useState } from 'react'
import { Instant } from '../kit/Instant.tsx'
import { pauseText } from '../shell/Banners.tsx'
import { PauseDialog, type PauseTarget } from './PauseDialog.tsx'
import type { PauseRow } from './shapes.ts'

export function PauseList({ pauses }: { pauses: PauseRow[] }) {
  const [target, setTarget] = useState<PauseTarget>()
  return (
    <>
      {pauses.length === 0 && <p className="dim">Nothing is paused.</p>}
      <ul className="pause-list" aria-label="Pauses">
        {pauses.map((pause) => (
          <li key={`${pause.queue} ${pause.tenant_id}`}>
            <div>
              <strong>{pauseText(pause)}</strong>
              <div className="dim">
                {pause.actor ?? 'From the command line'}, <Instant at={pause.since} />
                {pause.reason !== null && `: ${pause.reason}`}
              </div>
            </div>
            <Button
              size="compact-sm"
              aria-label={`Resume ${pauseText(pause)}`}
              onClick={() =>
                setTarget({
                  act: 'Resume',
                  queue: pause.queue,
                  ...(pause.tenant_id !== null && {
                    tenant: { id: pause.tenant_id, slug: pause.tenant ?? pause.tenant_id },
                  }),
                })
              }
            >
              Resume
            </Button>
          </li>
        ))}
      </ul>
      <PauseDialog target={target} close={() => setTarget(undefined)} />
    </>
  )
}
