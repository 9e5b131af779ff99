// Code, with a button that copies it.
import type { ReactNode } from 'react'
import { CopyButton } from './CopyButton.tsx'

/** A block of code. `highlighted`: the same text with syntax highlighting. */
export function CodeBlock({
  text,
  highlighted,
  label,
}: {
  text: string
  highlighted?: ReactNode
  label: string
}) {
  return (
    <div className="code">
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keyboard */}
      <pre tabIndex={0} aria-label={label}>
        {highlighted ?? text}
      </pre>
      <CopyButton text={text} label={`Copy ${label}`} />
    </div>
  )
}
