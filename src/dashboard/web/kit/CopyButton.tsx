// A button that copies, and says that it did.
import { Tooltip } from '@mantine/core'
import { Check, Copy } from 'lucide-react'
import { useEffect, useState } from 'react'

/** Copies `text`; a small square with an icon, named `label`. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [copied, copy] = useCopy(text)
  return (
    <Tooltip label={copied ? 'Copied' : label}>
      <button type="button" className="copy" aria-label={label} onClick={copy}>
        {copied ? <Check size={14} /> : <Copy size={14} />}
        <span className="heard" role="status">
          {copied ? 'Copied' : ''}
        </span>
      </button>
    </Tooltip>
  )
}

/** Whether `text` was copied a moment ago, and what copies it. */
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
