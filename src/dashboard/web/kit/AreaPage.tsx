// A page of an API area, which may be switched off.
import type { ReactNode } from 'react'
import { PowerOff } from 'lucide-react'
import { useAreaState, type AreaState } from '../session.tsx'
import { PageHeader } from './PageHeader.tsx'

/** Shows `children` if the area is deployed, otherwise the reason. */
export function AreaPage({ area, title, children }: { area: string; title: string; children: ReactNode }) {
  const state = useAreaState(area)
  if (state === 'deployed') return children
  return (
    <>
      <PageHeader title={title} />
      <div className="state">
        <PowerOff size={24} strokeWidth={1.5} aria-hidden />
        <h2>{TEXTS[state].title}</h2>
        <p>{TEXTS[state].text}</p>
      </div>
    </>
  )
}

const TEXTS: Record<Exclude<AreaState, 'deployed'>, { title: string; text: string }> = {
  switched_off: {
    title: 'This area is switched off',
    text: 'The operator of this installation has switched it off. Its data is retained.',
  },
  not_deployed: { title: 'This area is not deployed', text: 'This installation does not run it.' },
  without_credentials: {
    title: 'This area has no credentials',
    text: 'The operator of this installation must set the credentials of its provider.',
  },
}
