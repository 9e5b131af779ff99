// The routes. The code of a page is loaded when it is opened.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Navigate,
  Outlet,
} from '@tanstack/react-router'
import type { FunctionComponent, ReactNode } from 'react'
import { parseAddress, formatAddress, type AddressSearch } from './address.ts'
import { loadPage, PageError } from './chunks.tsx'
import { BASE_PATH } from './mode.ts'
import { AreaPage } from './kit/AreaPage.tsx'
import { PageSkeleton } from './kit/Skeleton.tsx'
import { OperatorPage } from './kit/OperatorPage.tsx'
import { NotFound } from './kit/NotFound.tsx'
import { TestModeOnly } from './sandbox/TestModeOnly.tsx'
import { ModeStrip } from './shell/ModeStrip.tsx'
import { Shell } from './shell/Shell.tsx'

const root = createRootRoute({
  component: () => (
    <>
      <ModeStrip />
      <Outlet />
    </>
  ),
  // Filters are plain strings, which are not validated here: each page reads only its own filters.
  validateSearch: (search): AddressSearch => search as AddressSearch,
})
const signedIn = createRoute({ getParentRoute: () => root, id: 'signed-in', component: Shell })

type PageLoader<Name extends string> = () => Promise<Record<Name, FunctionComponent>>

const page = <Name extends string>(path: string, load: PageLoader<Name>, name: Name) =>
  createRoute({
    getParentRoute: () => signedIn,
    path,
    component: lazyRouteComponent(() => loadPage(load, name)),
  })

/** A page of an area. While the area is switched off, the page shows only `title` and the reason. */
const areaPage = <Name extends string>(
  area: string,
  title: string,
  path: string,
  load: PageLoader<Name>,
  name: Name,
) => {
  const Page = lazyRouteComponent(() => loadPage(load, name))
  const component = () => (
    <AreaPage area={area} title={title}>
      <Page />
    </AreaPage>
  )
  return createRoute({
    getParentRoute: () => signedIn,
    path,
    component: Object.assign(component, { preload: Page.preload }),
  })
}

/** A page within a frame, which may show something else instead. */
const framedPage = <Name extends string>(
  Frame: FunctionComponent<{ children: ReactNode }>,
  path: string,
  load: PageLoader<Name>,
  name: Name,
) => {
  const Page = lazyRouteComponent(() => loadPage(load, name))
  const component = () => (
    <Frame>
      <Page />
    </Frame>
  )
  return createRoute({
    getParentRoute: () => signedIn,
    path,
    component: Object.assign(component, { preload: Page.preload }),
  })
}

/** A page of operators. Other users get a message. */
const operatorPage = <Name extends string>(path: string, load: PageLoader<Name>, name: Name) =>
  framedPage(OperatorPage, path, load, name)

/** A page of the sandbox. In live mode, it leads to test mode. */
const sandboxPage = <Name extends string>(path: string, load: PageLoader<Name>, name: Name) =>
  framedPage(TestModeOnly, path, load, name)

const publicPage = <Name extends string>(path: string, load: PageLoader<Name>, name: Name) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(() => loadPage(load, name)) })

const settings = page('/settings', () => import('./pages/settings.tsx'), 'SettingsPage')

const tab = <Name extends string>(path: string, load: PageLoader<Name>, name: Name) =>
  createRoute({
    getParentRoute: () => settings,
    path,
    component: lazyRouteComponent(() => loadPage(load, name)),
  })

function NoSuchPage() {
  return <NotFound title="There is no such page" parent={{ to: '/', title: 'Overview' }} />
}

const TABS = [
  createRoute({
    getParentRoute: () => settings,
    path: '/',
    component: () => <Navigate to="/settings/api-keys" replace />,
  }),
  tab('api-keys', () => import('./pages/settings/api-keys.tsx'), 'ApiKeysTab'),
  tab('members', () => import('./pages/settings/members.tsx'), 'MembersTab'),
  tab('email', () => import('./pages/settings/email.tsx'), 'EmailTab'),
  tab('profile', () => import('./pages/settings/profile.tsx'), 'ProfileTab'),
  tab('audit', () => import('./pages/settings/audit.tsx'), 'AuditTab'),
]

const PAGES = [
  page('/', () => import('./pages/overview.tsx'), 'OverviewPage'),
  areaPage('customers', 'Customers', '/customers', () => import('./pages/customers.tsx'), 'CustomersPage'),
  areaPage('customers', 'Customer', '/customers/$id', () => import('./pages/customer.tsx'), 'CustomerPage'),
  areaPage('payments', 'Payments', '/payments', () => import('./pages/payments.tsx'), 'PaymentsPage'),
  areaPage('payments', 'Payment', '/payments/$id', () => import('./pages/payment.tsx'), 'PaymentPage'),
  areaPage('payments', 'Refunds', '/refunds', () => import('./pages/refunds.tsx'), 'RefundsPage'),
  areaPage('payments', 'Refund', '/refunds/$id', () => import('./pages/refund.tsx'), 'RefundPage'),
  areaPage('payments', 'Disputes', '/disputes', () => import('./pages/disputes.tsx'), 'DisputesPage'),
  areaPage('payments', 'Dispute', '/disputes/$id', () => import('./pages/dispute.tsx'), 'DisputePage'),
  areaPage('payouts', 'Payouts', '/payouts', () => import('./pages/payouts.tsx'), 'PayoutsPage'),
  areaPage('payouts', 'Payout', '/payouts/$id', () => import('./pages/payout.tsx'), 'PayoutPage'),
  areaPage('wallet', 'Wallet', '/wallet', () => import('./pages/wallet.tsx'), 'WalletPage'),
  areaPage('wallet', 'Top-ups', '/wallet/top-ups', () => import('./pages/top-ups.tsx'), 'TopUpsPage'),
  areaPage('wallet', 'Top-up', '/wallet/top-ups/$id', () => import('./pages/top-up.tsx'), 'TopUpPage'),
  areaPage(
    'recipients',
    'Recipients',
    '/recipients',
    () => import('./pages/recipients.tsx'),
    'RecipientsPage',
  ),
  areaPage(
    'recipients',
    'Recipient',
    '/recipients/$id',
    () => import('./pages/recipient.tsx'),
    'RecipientPage',
  ),
  areaPage('merchants', 'Merchants', '/merchants', () => import('./pages/merchants.tsx'), 'MerchantsPage'),
  areaPage('merchants', 'Merchant', '/merchants/$id', () => import('./pages/merchant.tsx'), 'MerchantPage'),
  areaPage(
    'compliance',
    'Compliance',
    '/compliance',
    () => import('./pages/compliance.tsx'),
    'CompliancePage',
  ),
  areaPage(
    'compliance',
    'Verification',
    '/compliance/$id',
    () => import('./pages/verification.tsx'),
    'VerificationPage',
  ),
  areaPage('messages', 'Messages', '/messages', () => import('./pages/messages.tsx'), 'MessagesPage'),
  areaPage('messages', 'Message', '/messages/$id', () => import('./pages/message.tsx'), 'MessagePage'),
  areaPage(
    'messages',
    'Templates',
    '/messages/templates',
    () => import('./pages/templates.tsx'),
    'TemplatesPage',
  ),
  areaPage(
    'messages',
    'Template',
    '/messages/templates/$id',
    () => import('./pages/template.tsx'),
    'TemplatePage',
  ),
  areaPage(
    'messages',
    'Suppressions',
    '/messages/suppressions',
    () => import('./pages/suppressions.tsx'),
    'SuppressionsPage',
  ),
  areaPage('ai', 'AI tasks', '/ai-tasks', () => import('./pages/ai-tasks.tsx'), 'AiTasksPage'),
  areaPage('ai', 'AI task', '/ai-tasks/$id', () => import('./pages/ai-task.tsx'), 'AiTaskPage'),
  areaPage('events', 'Events', '/events', () => import('./pages/events.tsx'), 'EventsPage'),
  areaPage('events', 'Event', '/events/$id', () => import('./pages/event.tsx'), 'EventPage'),
  areaPage('events', 'Webhooks', '/webhooks', () => import('./pages/webhooks.tsx'), 'WebhooksPage'),
  areaPage(
    'events',
    'Webhook endpoint',
    '/webhooks/$id',
    () => import('./pages/webhook-endpoint.tsx'),
    'WebhookEndpointPage',
  ),
  areaPage(
    'events',
    'Webhook delivery',
    '/webhooks/deliveries/$id',
    () => import('./pages/webhook-delivery.tsx'),
    'WebhookDeliveryPage',
  ),
  sandboxPage('/sandbox', () => import('./pages/sandbox.tsx'), 'SandboxPage'),
  sandboxPage('/sandbox/payments', () => import('./pages/sandbox-payments.tsx'), 'SandboxPaymentsPage'),
  sandboxPage('/sandbox/payouts', () => import('./pages/sandbox-payouts.tsx'), 'SandboxPayoutsPage'),
  sandboxPage(
    '/sandbox/verifications',
    () => import('./pages/sandbox-verifications.tsx'),
    'SandboxVerificationsPage',
  ),
  // The link that a person gets for a verification.
  sandboxPage(
    '/sandbox/identity/$session/start',
    () => import('./pages/sandbox-verification-link.tsx'),
    'SandboxVerificationLinkPage',
  ),
  sandboxPage('/sandbox/clock', () => import('./pages/sandbox-clock.tsx'), 'SandboxClockPage'),
  sandboxPage('/sandbox/messages/$id', () => import('./pages/sandbox-message.tsx'), 'SandboxMessagePage'),
  operatorPage('/ops/queues', () => import('./pages/ops/queues.tsx'), 'QueuesPage'),
  operatorPage('/ops/queues/$queue', () => import('./pages/ops/queue.tsx'), 'QueuePage'),
  operatorPage('/ops/jobs', () => import('./pages/ops/jobs.tsx'), 'JobsPage'),
  operatorPage('/ops/jobs/$id', () => import('./pages/ops/job.tsx'), 'JobPage'),
  operatorPage('/ops/acts/$id', () => import('./pages/ops/act.tsx'), 'ActPage'),
  operatorPage('/ops/schedules', () => import('./pages/ops/schedules.tsx'), 'SchedulesPage'),
  operatorPage('/ops/drifts', () => import('./pages/ops/drifts.tsx'), 'DriftsPage'),
  operatorPage('/ops/proposals', () => import('./pages/ops/proposals.tsx'), 'ProposalsPage'),
  operatorPage('/ops/recovery', () => import('./pages/ops/recovery.tsx'), 'RecoveryPage'),
  operatorPage('/ops/audit', () => import('./pages/ops/audit.tsx'), 'OperatorAuditPage'),
  operatorPage('/ops/processes', () => import('./pages/ops/processes.tsx'), 'ProcessesPage'),
  operatorPage('/ops/providers', () => import('./pages/ops/providers.tsx'), 'ProvidersPage'),
  operatorPage('/ops/tenants', () => import('./pages/ops/tenants.tsx'), 'TenantsPage'),
  // Unknown addresses are shown within the shell.
  createRoute({ getParentRoute: () => signedIn, path: '$', component: NoSuchPage }),
]

export const router = createRouter({
  routeTree: root.addChildren([
    publicPage('/sign-in', () => import('./pages/sign-in.tsx'), 'SignInPage'),
    publicPage('/invitation/$token', () => import('./pages/invitation.tsx'), 'InvitationPage'),
    signedIn.addChildren([settings.addChildren(TABS), ...PAGES]),
  ]),
  basepath: BASE_PATH,
  parseSearch: parseAddress,
  stringifySearch: formatAddress,
  defaultPreload: 'intent',
  defaultPendingComponent: PageSkeleton,
  defaultPendingMs: 100,
  defaultErrorComponent: PageError,
  defaultNotFoundComponent: NoSuchPage,
  scrollRestoration: true,
})
