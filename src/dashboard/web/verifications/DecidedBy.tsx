// Who decided a verification by hand: a member of the tenant, or a program by its key.
import { Id } from '../kit/Id.tsx'
import { useAnswer } from '../queries.ts'

/** What these routes tell that is needed here. */
type KnownMembers = { members: { user_id: string; email: string }[] }
type KnownKey = { id: string; name: string }

/** `id`: of the member who was signed in, or of the key. */
export function DecidedBy({ id }: { id: string }) {
  const { data: people } = useAnswer<KnownMembers>('/members')
  const { data: keys } = useAnswer<KnownKey[]>('/keys')
  const member = people?.members.find(({ user_id }) => user_id === id)
  if (member !== undefined) return <>By hand, by {member.email}</>
  const key = keys?.find((each) => each.id === id)
  if (key !== undefined) return <>By hand, with the key {key.name}</>
  return (
    <>
      By hand, by <Id id={id} label="id of who decided" />
    </>
  )
}
