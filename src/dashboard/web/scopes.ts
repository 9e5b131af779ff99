// Descriptions of the API key scopes. A test compares them with the scopes of the API.

export const SCOPE_DESCRIPTIONS: Readonly<Record<string, string>> = {
  'customer:write': 'create, change and delete customers',
  'payments:read': 'read payments, refunds, disputes, open drifts and the test clock',
  'payments:write': 'create, capture, cancel and refund payments, and move the test clock',
  'payouts:read': 'read payouts and their timelines',
  'payouts:write': 'create, cancel and fail payouts',
  'wallet:read': 'read balances, wallet transactions and top-ups',
  'wallet:write': 'create top-ups',
  'recipients:read': 'read recipients of payouts',
  'recipients:write': 'create, change and archive recipients',
  'merchants:read': 'read merchants',
  'merchants:write': 'create, change and archive merchants',
  'compliance:read': 'read verifications and their timelines',
  'compliance:write': 'open and decide verifications',
  'messaging:read': 'read messages, templates and suppressions',
  'messaging:write': 'send email and SMS, manage templates and suppressions',
  'ai:read': 'read AI tasks',
  'ai:write': 'start and cancel AI tasks',
  'events:read': 'read events, webhook endpoints and deliveries',
  'webhooks:write': 'manage webhook endpoints, replay and recover deliveries',
}
