// The link of a verification, which is shown once.
import { CopyField } from '../kit/CopyField.tsx'

export function LinkToShow({ url, done }: { url: string | null; done: boolean }) {
  if (url !== null)
    return (
      <div className="stack">
        <CopyField label="Link for the person" value={url} />
        <p>Copy it now: it is not shown again. It is good for one visit within 48 hours.</p>
      </div>
    )
  return done
    ? 'There is no link to show: the person is not asked for anything now.'
    : 'Asked, and not answered yet. Look at the verification in a moment, and renew the link there.'
}
