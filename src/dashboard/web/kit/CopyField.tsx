// A read-only field with something to take away: a new key, a link.
import { Button, TextInput } from '@mantine/core'
import { Check, Copy } from 'lucide-react'
import { useCopy } from './CopyButton.tsx'

/** A field named `label` that cannot be changed, with a button `Copy`. */
export function CopyField({ label, value }: { label: string; value: string }) {
  const [copied, copy] = useCopy(value)
  return (
    <div className="line" style={{ alignItems: 'flex-end', flexWrap: 'nowrap' }}>
      <TextInput
        label={label}
        value={value}
        readOnly
        style={{ flex: 1 }}
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
