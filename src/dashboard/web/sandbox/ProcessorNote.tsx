// A note in the sandbox if the processor of test mode is a test account instead.
import { Info } from 'lucide-react'
import { useSession } from '../session.tsx'

export function ProcessorNote() {
  if (useSession().has_sandbox_processor) return null
  return (
    <div className="note" role="note">
      <Info size={16} aria-hidden />
      <div>
        The processor of test mode is a test account. Pay, dispute, fail and verify there: the sandbox has no
        buttons for it.
      </div>
    </div>
  )
}
