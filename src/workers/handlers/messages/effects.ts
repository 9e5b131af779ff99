// The step that settles a message.
import { settleMessages, type MessageSettlement } from '#domain/messages/settle.ts'
import { emptyMessageUpdate, type MessageUpdate } from '#domain/messages/update.ts'
import { createSettlingStep, type SettlementDetails } from '../../settle.ts'

/**
 * How long the settlements of messages are gathered for one statement, because one more message in a statement costs
 * far less than one more statement.
 */
const GATHER_MS = 20

export const settlingMessage = createSettlingStep<SettlementDetails<MessageSettlement>>(
  'settle_message',
  settleMessages,
  ({ update }) => update.message_id,
  { gather_ms: GATHER_MS },
)

export type MessageIds = { tenant_id: string; message_id: string }

/** The effects that settle a message with its call's report. */
export function messageEffects(
  ids: MessageIds,
  update: Pick<MessageUpdate, 'reported'> & Partial<MessageUpdate>,
) {
  return settlingMessage({
    update: { ...emptyMessageUpdate, ...ids, ...update },
    notification_id: null,
    happened_at: null,
  })
}
