// The addresses, each with its page, which is loaded when somebody goes there.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Navigate,
  Outlet,
} from '@tanstack/react-router'
import type { ComponentType } from 'react'
import { parseAddress, printAddress, type AddressSearch } from './address.ts'
import { PageBones } from './kit/Bone.tsx'
import { Failed } from './kit/states.tsx'
import { NotFound } from './kit/NotFound.tsx'
import { Shell } from './shell/Shell.tsx'

const root = createRootRoute({
  component: Outlet,
  // Filters are plain words: each page reads those that it knows.
  validateSearch: (search): AddressSearch => search as AddressSearch,
})
const signedIn = createRoute({ getParentRoute: () => root, id: 'signed-in', component: Shell })

type Loaded<Name extends string> = () => Promise<Record<Name, ComponentType>>

const page = <Name extends string>(path: string, load: Loaded<Name>, name: Name) =>
  createRoute({ getParentRoute: () => signedIn, path, component: lazyRouteComponent(load, name) })

const outside = <Name extends string>(path: string, load: Loaded<Name>, name: Name) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load, name) })

const settings = page('/settings', () => import('./pages/settings.tsx'), 'SettingsPage')

const tab = <Name extends string>(path: string, load: Loaded<Name>, name: Name) =>
  createRoute({ getParentRoute: () => settings, path, component: lazyRouteComponent(load, name) })

const TABS = [
  createRoute({
    getParentRoute: () => settings,
    path: '/',
    component: () => <Navigate to="/settings/api-keys" replace />,
  }),
  tab('api-keys', () => import('./pages/settings/api-keys.tsx'), 'ApiKeysTab'),
  tab('members', () => import('./pages/settings/members.tsx'), 'MembersTab'),
  tab('profile', () => import('./pages/settings/profile.tsx'), 'ProfileTab'),
  tab('audit', () => import('./pages/settings/audit.tsx'), 'AuditTab'),
]

const PAGES = [
  page('/', () => import('./pages/overview.tsx'), 'OverviewPage'),
  page('/customers', () => import('./pages/customers.tsx'), 'CustomersPage'),
  page('/customers/$id', () => import('./pages/customer.tsx'), 'CustomerPage'),
  page('/payments', () => import('./pages/payments.tsx'), 'PaymentsPage'),
  page('/payments/$id', () => import('./pages/payment.tsx'), 'PaymentPage'),
  page('/refunds', () => import('./pages/refunds.tsx'), 'RefundsPage'),
  page('/refunds/$id', () => import('./pages/refund.tsx'), 'RefundPage'),
  page('/disputes', () => import('./pages/disputes.tsx'), 'DisputesPage'),
  page('/disputes/$id', () => import('./pages/dispute.tsx'), 'DisputePage'),
  page('/payouts', () => import('./pages/payouts.tsx'), 'PayoutsPage'),
  page('/payouts/$id', () => import('./pages/payout.tsx'), 'PayoutPage'),
  page('/wallet', () => import('./pages/wallet.tsx'), 'WalletPage'),
  page('/wallet/top-ups', () => import('./pages/top-ups.tsx'), 'TopUpsPage'),
  page('/wallet/top-ups/$id', () => import('./pages/top-up.tsx'), 'TopUpPage'),
  page('/recipients', () => import('./pages/recipients.tsx'), 'RecipientsPage'),
  page('/recipients/$id', () => import('./pages/recipient.tsx'), 'RecipientPage'),
  page('/merchants', () => import('./pages/merchants.tsx'), 'MerchantsPage'),
  page('/merchants/$id', () => import('./pages/merchant.tsx'), 'MerchantPage'),
  page('/compliance', () => import('./pages/compliance.tsx'), 'CompliancePage'),
  page('/compliance/$id', () => import('./pages/verification.tsx'), 'VerificationPage'),
  page('/messages', () => import('./pages/messages.tsx'), 'MessagesPage'),
  page('/messages/$id', () => import('./pages/message.tsx'), 'MessagePage'),
  page('/messages/templates', () => import('./pages/templates.tsx'), 'TemplatesPage'),
  page('/messages/templates/$id', () => import('./pages/template.tsx'), 'TemplatePage'),
  page('/messages/suppressions', () => import('./pages/suppressions.tsx'), 'SuppressionsPage'),
  page('/ai-tasks', () => import('./pages/ai-tasks.tsx'), 'AiTasksPage'),
  page('/ai-tasks/$id', () => import('./pages/ai-task.tsx'), 'AiTaskPage'),
  page('/events', () => import('./pages/events.tsx'), 'EventsPage'),
  page('/events/$id', () => import('./pages/event.tsx'), 'EventPage'),
  page('/webhooks', () => import('./pages/webhooks.tsx'), 'WebhooksPage'),
  page('/webhooks/$id', () => import('./pages/webhook-endpoint.tsx'), 'WebhookEndpointPage'),
  page('/webhooks/deliveries/$id', () => import('./pages/webhook-delivery.tsx'), 'WebhookDeliveryPage'),
  page('/ops/queues', () => import('./pages/ops/queues.tsx'), 'QueuesPage'),
  page('/ops/queues/$queue', () => import('./pages/ops/queue.tsx'), 'QueuePage'),
  page('/ops/jobs', () => import('./pages/ops/jobs.tsx'), 'JobsPage'),
  page('/ops/jobs/$id', () => import('./pages/ops/job.tsx'), 'JobPage'),
  page('/ops/acts/$id', () => import('./pages/ops/act.tsx'), 'ActPage'),
  page('/ops/schedules', () => import('./pages/ops/schedules.tsx'), 'SchedulesPage'),
  page('/ops/drifts', () => import('./pages/ops/drifts.tsx'), 'DriftsPage'),
  page('/ops/audit', () => import('./pages/ops/audit.tsx'), 'OperatorAuditPage'),
  page('/ops/processes', () => import('./pages/ops/processes.tsx'), 'ProcessesPage'),
  page('/ops/providers', () => import('./pages/ops/providers.tsx'), 'ProvidersPage'),
  page('/ops/tenants', () => import('./pages/ops/tenants.tsx'), 'TenantsPage'),
]

export const router = createRouter({
  routeTree: root.addChildren([
    outside('/sign-in', () => import('./pages/sign-in.tsx'), 'SignInPage'),
    outside('/invitation/$token', () => import('./pages/invitation.tsx'), 'InvitationPage'),
    signedIn.addChildren([settings.addChildren(TABS), ...PAGES]),
  ]),
  parseSearch: parseAddress,
  stringifySearch: printAddress,
  defaultPreload: 'intent',
  defaultPendingComponent: PageBones,
  defaultPendingMs: 100,
  defaultErrorComponent: ({ error, reset }) => (
    <Failed error={error instanceof Error ? error : new Error(String(error))} retry={reset} />
  ),
  defaultNotFoundComponent: NotFound,
  scrollRestoration: true,
})
