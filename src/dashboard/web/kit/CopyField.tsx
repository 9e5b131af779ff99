// A read-only field with a value to copy: a new key, a link.
import { Button, Textarea } from '@mantine/core'
import { Check, Copy } from 'lucide-react'
import { useCopy } from './CopyButton.tsx'

/** Characters that fit in a line of a dialog. */
const LINE_LENGTH = 36

/** A read-only field with a `Copy` button. */
export function CopyField({ label, value }: { label: string; value: string }) {
  const [copied, copy] = useCopy(value)
  return (
    <div className="inline" style={{ alignItems: 'flex-end', flexWrap: 'nowrap' }}>
      <Textarea
        label={label}
        value={value}
        readOnly
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
