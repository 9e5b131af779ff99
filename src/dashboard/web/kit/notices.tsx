// Short notices in the corner of the page. Screen readers announce them.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { CircleAlert, CircleCheck, Info, X } from 'lucide-react'
import { useSyncExternalStore } from 'react'
import type { AddressSearch } from '../address.ts'
import { toneClass } from './Status.tsx'

type Notice = {
  id: number
  tone: 'good' | 'bad' | 'idle'
  text: string
  link?: { to: string; search?: AddressSearch; title: string } | undefined
  act?: { title: string; run: () => void }
}

/**
 * Shows a notice, e.g. `notify({ tone: 'good', text: 'Key revoked.' })`. It disappears after 6 s, unless its tone is
 * `bad`.
 */
export function notify(notice: Omit<Notice, 'id'>): void {
  // Permanent notices are not repeated.
  if (notice.tone === 'bad' && notices.some(({ text }) => text === notice.text)) return
  const id = ++last
  set([...notices, { ...notice, id }])
  if (notice.tone !== 'bad') setTimeout(() => dismiss(id), 6000)
}

/** The region of the notices. The shell renders it once. */
export function NoticeRegion() {
  const current_notices = useSyncExternalStore(subscribe, () => notices)
  return (
    <div className="notices" role="status" aria-live="polite" aria-label="Notices">
      {current_notices.map(({ id, tone, text, link, act }) => {
        const Icon = ICONS[tone]
        return (
          <div key={id} className="notice">
            <Icon size={16} className={toneClass(tone)} aria-hidden />
            <div>
              {text}{' '}
              {link && (
                <Link to={link.to} {...(link.search && { search: link.search })}>
                  {link.title}
                </Link>
              )}
              {act && (
                <Button size="compact-xs" onClick={act.run}>
                  {act.title}
                </Button>
              )}
            </div>
            <button type="button" className="icon-button" aria-label="Dismiss" onClick={() => dismiss(id)}>
              <X size={14} />
            </button>
          </div>
        )
      })}
    </div>
  )
}

const ICONS = { good: CircleCheck, bad: CircleAlert, idle: Info }

let last = 0
let notices: Notice[] = []
const listeners = new Set<() => void>()

const dismiss = (id: number) => set(notices.filter((one) => one.id !== id))

function set(next: Notice[]): void {
  notices = next
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
