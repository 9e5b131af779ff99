// Settings, Members.
import { NotBuilt } from '../../kit/states.tsx'

export function MembersTab() {
  return <NotBuilt />
}
