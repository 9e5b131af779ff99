// The header of a page: heading, description, actions, and when the data was read.
import { Link, useRouterState } from '@tanstack/react-router'
import { useEffect, useRef, type ReactNode } from 'react'
import { MODE, pathOf } from '../mode.ts'
import { Freshness, type ReadState } from './Freshness.tsx'

/**
 * The header of a page; every page has one. `title` is also the window title. The heading gets the focus after
 * navigation. `heading` replaces `title` in the heading, e.g. an amount with its status. `parent`: the list that the
 * page belongs to. `read`: the page's query. `as_of`: the time of the data in ms, if the server reports it.
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
  // The path of the rendered page. While the next page loads, the address has already changed.
  const path = useRouterState({ select: (state) => state.resolvedLocation?.pathname })
  useEffect(() => {
    document.title = MODE === 'test' ? `${title} · Test mode · Sluice` : `${title} · Sluice`
  }, [title])
  useEffect(() => {
    // Focus the heading after navigation only: not on the first page, and not when only the tab changes.
    if (path === undefined) return undefined
    const navigated = rendered_path !== path
    rendered_path = path
    // After Back, the opened row has the focus.
    if (!navigated || document.activeElement?.matches('[role=tab], main [data-row]')) return undefined
    const focus = () => focused.current?.focus({ preventScroll: true })
    if (document.querySelector('[role=dialog]') === null) {
      focus()
      return undefined
    }
    // The palette or the drawer first returns the focus to its button.
    const timer = setTimeout(focus, 250)
    return () => clearTimeout(timer)
  }, [path])
  return (
    <header className="page-header">
      <div>
        {parent && (
          <div className="page-parent">
            <Link to={parent.to}>{parent.title}</Link>
          </div>
        )}
        <h1 ref={focused} tabIndex={-1}>
          {heading ?? title}
        </h1>
        {description !== undefined && <p>{description}</p>}
        {read && <Freshness of={read} as_of={as_of} />}
      </div>
      {actions !== undefined && <div className="inline">{actions}</div>}
    </header>
  )
}

/**
 * The path that was rendered last. Initially the path that the browser has loaded: the user may navigate before that
 * page is rendered.
 */
let rendered_path = pathOf(globalThis.location.pathname)
