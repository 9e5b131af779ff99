// A new secret, which is shown once.
import { CopyField } from '../kit/CopyField.tsx'

export function NewSecret({ secret }: { secret: string | null }) {
  return (
    <div className="stack">
      <CopyField label="Signing secret" value={secret ?? ''} />
      <p>Copy it now: it is not shown again. Your receiver checks signatures with it.</p>
    </div>
  )
}
