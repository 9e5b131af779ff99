// The frame of the sandbox's pages, which live mode lacks.
import { Button } from '@mantine/core'
import { useLocation } from '@tanstack/react-router'
import { FlaskConical } from 'lucide-react'
import type { ReactNode } from 'react'
import { PageHeader } from '../kit/PageHeader.tsx'
import { MODE, openInMode } from '../mode.ts'

/** Shows `children` in test mode, otherwise a button that opens the page there. */
export function TestModeOnly({ children }: { children: ReactNode }) {
  const { href } = useLocation()
  if (MODE === 'test') return children
  return (
    <>
      <PageHeader title="Sandbox" />
      <div className="state">
        <FlaskConical size={24} strokeWidth={1.5} aria-hidden />
        <h2>This page belongs to test mode</h2>
        <p>The sandbox stands in for buyers, banks, verified persons and phones. Live mode has none.</p>
        <div className="state-action">
          <Button onClick={() => openInMode('test', href)}>Open test mode</Button>
        </div>
      </div>
    </>
  )
}
