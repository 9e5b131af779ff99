// Settings, Profile.
import { NotBuilt } from '../../kit/states.tsx'

export function ProfileTab() {
  return <NotBuilt />
}
