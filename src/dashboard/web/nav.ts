// The pages of the navigation, the palette and the keyboard shortcuts.
import {
  ArrowLeftRight,
  Banknote,
  Bot,
  Building2,
  CalendarClock,
  Contact,
  Cpu,
  CreditCard,
  DatabaseZap,
  FileClock,
  FlaskConical,
  Gauge,
  Handshake,
  Layers,
  ListChecks,
  Mail,
  Plug,
  Radio,
  Scale,
  Settings,
  ShieldCheck,
  Store,
  Undo2,
  Users,
  Wallet,
  Webhook,
  type LucideIcon,
} from 'lucide-react'
import { MODE } from './mode.ts'

export type NavPage = {
  title: string
  to: string
  icon: LucideIcon
  /** The API area of the page. If the area is switched off, the link shows that. */
  area?: string
  /** The key that opens the page after `g`. */
  key?: string
}

export const TENANT_PAGES: NavPage[] = [
  { title: 'Overview', to: '/', icon: Gauge, key: 'o' },
  { title: 'Customers', to: '/customers', icon: Users, area: 'customers', key: 'c' },
  { title: 'Payments', to: '/payments', icon: CreditCard, area: 'payments', key: 'p' },
  { title: 'Refunds', to: '/refunds', icon: Undo2, area: 'payments', key: 'r' },
  { title: 'Payouts', to: '/payouts', icon: Banknote, area: 'payouts', key: 'u' },
  { title: 'Wallet', to: '/wallet', icon: Wallet, area: 'wallet', key: 'w' },
  { title: 'Recipients', to: '/recipients', icon: Contact, area: 'recipients', key: 'n' },
  { title: 'Merchants', to: '/merchants', icon: Store, area: 'merchants', key: 'b' },
  { title: 'Compliance', to: '/compliance', icon: ShieldCheck, area: 'compliance', key: 'k' },
  { title: 'Messages', to: '/messages', icon: Mail, area: 'messages', key: 'm' },
  { title: 'AI tasks', to: '/ai-tasks', icon: Bot, area: 'ai', key: 'i' },
  { title: 'Events', to: '/events', icon: Radio, area: 'events', key: 'e' },
  { title: 'Webhooks', to: '/webhooks', icon: Webhook, area: 'events', key: 'h' },
  ...(MODE === 'test' ? [{ title: 'Sandbox', to: '/sandbox', icon: FlaskConical, key: 'z' }] : []),
  { title: 'Settings', to: '/settings', icon: Settings, key: 's' },
]

const PAGES_OF_OPERATORS: NavPage[] = [
  { title: 'Queues', to: '/ops/queues', icon: Layers, key: 'q' },
  { title: 'Jobs', to: '/ops/jobs', icon: ListChecks, key: 'j' },
  { title: 'Schedules', to: '/ops/schedules', icon: CalendarClock, key: 'l' },
  { title: 'Drifts', to: '/ops/drifts', icon: Scale, key: 'd' },
  { title: 'Proposals', to: '/ops/proposals', icon: Handshake, key: 'y' },
  { title: 'Recovery', to: '/ops/recovery', icon: DatabaseZap, key: 'f' },
  { title: 'Audit', to: '/ops/audit', icon: FileClock, key: 'a' },
  { title: 'Processes', to: '/ops/processes', icon: Cpu, key: 'x' },
  { title: 'Providers', to: '/ops/providers', icon: Plug, key: 'v' },
  { title: 'Tenants', to: '/ops/tenants', icon: Building2, key: 't' },
]

/** The pages of operators, which have no mode and are offered in live mode. */
export const OPERATOR_PAGES = MODE === 'live' ? PAGES_OF_OPERATORS : []

/** Pages that are only in the palette. */
export const PALETTE_PAGES: NavPage[] = [
  { title: 'Disputes', to: '/disputes', icon: ArrowLeftRight, area: 'payments' },
]
