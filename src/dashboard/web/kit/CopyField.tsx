// A read-only field with something to take away: a new key, a link.
import { Button, Textarea } from '@mantine/core'
import { Check, Copy } from 'lucide-react'
import { useCopy } from './CopyButton.tsx'

/** Letters that fit in a line of a dialog; on a phone a line more is scrolled. */
const LINE_LENGTH = 36

/** A field named `label` that cannot be changed, with a button `Copy`. */
export function CopyField({ label, value }: { label: string; value: string }) {
  const [copied, copy] = useCopy(value)
  return (
    <div className="line" style={{ alignItems: 'flex-end', flexWrap: 'nowrap' }}>
      <Textarea
        label={label}
        value={value}
        readOnly
        // All of it is seen.
        rows={Math.ceil(value.length / LINE_LENGTH)}
        resize="none"
        style={{ flex: 1 }}
        styles={{ input: { wordBreak: 'break-all' } }}
        classNames={{ input: 'mono' }}
        onFocus={(event) => event.currentTarget.select()}
      />
      <Button
        onClick={copy}
        aria-label="Copy"
        leftSection={copied ? <Check size={14} /> : <Copy size={14} />}
      >
        {copied ? 'Copied' : 'Copy'}
      </Button>
    </div>
  )
}
