// The head of a page: its heading, what it is, what can be done, and as of when it is true.
import { Link, useRouterState } from '@tanstack/react-router'
import { useEffect, useRef, type ReactNode } from 'react'
import { Freshness, type ReadState } from './Freshness.tsx'

/**
 * Every page has one. `title` is also the title of the window and gets the focus when the page was gone to. `heading`
 * stands in its place where a text is not enough (an amount with its status). `above`: the list that it belongs to.
 * `read`: the query of what it shows. `as_of`: when that was true, in ms, where the server says so.
 */
export function PageHeader({
  title,
  heading,
  description,
  actions,
  parent,
  read,
  as_of,
}: {
  title: string
  heading?: ReactNode
  description?: ReactNode
  actions?: ReactNode
  parent?: { to: string; title: string }
  read?: ReadState
  as_of?: number | undefined
}) {
  const focused = useRef<HTMLHeadingElement>(null)
  // The page that is shown: while the next one is loaded, the address is already there.
  const path = useRouterState({ select: (state) => state.resolvedLocation?.pathname })
  useEffect(() => {
    document.title = `${title} · Sluice`
  }, [title])
  useEffect(() => {
    // Only after going to a page: the first one begins at its top, as everywhere. Tabs keep it.
    if (path === undefined) return undefined
    const navigated = shown_path !== path
    shown_path = path
    // A row that was opened has the focus again after Back.
    if (!navigated || document.activeElement?.matches('[role=tab], main [data-row]')) return undefined
    const focus = () => focused.current?.focus({ preventScroll: true })
    if (document.querySelector('[role=dialog]') === null) {
      focus()
      return undefined
    }
    // The palette or the drawer led here, and gives the focus back to its button first.
    const timer = setTimeout(focus, 250)
    return () => clearTimeout(timer)
  }, [path])
  return (
    <header className="page-header">
      <div>
        {parent && (
          <div className="page-above">
            <Link to={parent.to}>{parent.title}</Link>
          </div>
        )}
        <h1 ref={focused} tabIndex={-1}>
          {heading ?? title}
        </h1>
        {description !== undefined && <p>{description}</p>}
        {read && <Freshness of={read} as_of={as_of} />}
      </div>
      {actions !== undefined && <div className="line">{actions}</div>}
    </header>
  )
}

/** The path that was shown last; at first the one that was loaded, for somebody may go on before its page is shown. */
let shown_path = globalThis.location.pathname
