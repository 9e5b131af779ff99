// A page without the shell, for signed-out users.
import { useEffect, type ReactNode } from 'react'
import { Logo } from './Mark.tsx'

export function StandaloneCard({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Sluice`
  }, [title])
  return (
    <main className="standalone">
      <div className="standalone-card">
        <Logo size={32} />
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  )
}
