// A button that copies a text and confirms it.
import { Tooltip } from '@mantine/core'
import { Check, Copy } from 'lucide-react'
import { useEffect, useState } from 'react'

/** A square icon button that copies `text`. `label` is its accessible name. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [copied, copy] = useCopy(text)
  return (
    <Tooltip label={copied ? 'Copied' : label}>
      <button type="button" className="icon-button" aria-label={label} onClick={copy}>
        {copied ? <Check size={14} /> : <Copy size={14} />}
        <span className="visually-hidden" role="status">
          {copied ? 'Copied' : ''}
        </span>
      </button>
    </Tooltip>
  )
}

/** Whether `text` was copied in the last 1.5 s, and the function that copies it. */
export function useCopy(text: string): [copied: boolean, copy: () => void] {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return undefined
    const timer = setTimeout(() => setCopied(false), 1500)
    return () => clearTimeout(timer)
  }, [copied])
  return [
    copied,
    () => {
      void navigator.clipboard.writeText(text).then(() => setCopied(true))
    },
  ]
}
