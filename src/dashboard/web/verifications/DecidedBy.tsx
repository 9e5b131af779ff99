// The author of a manual decision: a member of the tenant, or a program by its API key.
import type { Answers } from '../generated/answers.ts'
import { Id } from '../kit/Id.tsx'
import { useAnswer } from '../queries.ts'

/** `id`: the id of the member or of the API key. */
export function DecidedBy({ id }: { id: string }) {
  const { data: people } = useAnswer<Answers['GET /members']>('/members')
  const { data: keys } = useAnswer<Answers['GET /keys']>('/keys')
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
