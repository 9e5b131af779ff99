// The navigation: pages of the tenant and of operators.
import { Link } from '@tanstack/react-router'
import { useAreaState, useSession } from '../session.tsx'
import { OPERATOR_PAGES, TENANT_PAGES, type NavPage } from '../nav.ts'
import { ModeSwitch } from './ModeSwitch.tsx'

/** `onGo` is called when a link is followed, to close the drawer. */
export function Nav({ onGo }: { onGo?: () => void }) {
  const { is_operator, tenant } = useSession()
  return (
    <nav aria-label="Main">
      {tenant !== null && <ModeSwitch />}
      {tenant !== null && (
        <ul>
          {TENANT_PAGES.map((page) => (
            <NavItem key={page.to} page={page} onGo={onGo} />
          ))}
        </ul>
      )}
      {is_operator && OPERATOR_PAGES.length > 0 && (
        <>
          <div className="nav-group" id="nav-operations">
            Operations
          </div>
          <ul aria-labelledby="nav-operations">
            {OPERATOR_PAGES.map((page) => (
              <NavItem key={page.to} page={page} onGo={onGo} />
            ))}
          </ul>
        </>
      )}
    </nav>
  )
}

function NavItem({ page, onGo }: { page: NavPage; onGo: (() => void) | undefined }) {
  const state = useAreaState(page.area)
  const Icon = page.icon
  // The note on the state of the area is the link's description, not part of its accessible name.
  return (
    <li>
      <Link
        to={page.to}
        className="nav-link"
        aria-description={state === 'deployed' ? undefined : AREA_NOTES[state]}
        activeOptions={{ exact: page.to === '/', includeSearch: false }}
        {...(onGo && { onClick: onGo })}
      >
        <Icon size={16} strokeWidth={1.75} aria-hidden />
        {page.title}
        {state !== 'deployed' && (
          <span className="nav-note" aria-hidden>
            {AREA_NOTES[state]}
          </span>
        )}
      </Link>
    </li>
  )
}

const AREA_NOTES = {
  switched_off: 'off',
  not_deployed: 'not deployed',
  without_credentials: 'no credentials',
}
