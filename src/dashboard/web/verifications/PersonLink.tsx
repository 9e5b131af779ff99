// The link of a verification, which is shown once.
import { CopyField } from '../kit/CopyField.tsx'

export function PersonLink({ url, done }: { url: string | null; done: boolean }) {
  if (url !== null)
    return (
      <div className="stack">
        <CopyField label="Link for the person" value={url} />
        <p>Copy it now: it is not shown again. It works for one visit within 48 hours.</p>
      </div>
    )
  return done
    ? 'There is no link: the person has nothing to do now.'
    : 'The provider has not responded yet. Open the verification in a moment, and renew the link there.'
}
