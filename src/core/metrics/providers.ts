// Metrics of calls to providers.
import { Counter, Gauge, Histogram } from 'prom-client'
import { SAME_IN_WORKERS, SHORT_BUCKETS, registers } from './registry.ts'

export const providersMetrics = {
  providerCall: new Histogram({
    name: 'sluice_provider_call_seconds',
    help: 'Time of a call to a provider',
    labelNames: ['provider', 'operation', 'outcome'],
    buckets: SHORT_BUCKETS,
    enableExemplars: true,
    registers,
  }),
  misconfigured: new Counter({
    name: 'sluice_provider_misconfigured_total',
    help: 'Calls that a provider refused because of our credentials, or that a worker could not make without credentials',
    labelNames: ['provider'],
    registers,
  }),
  platformLacksFunds: new Counter({
    name: 'sluice_platform_balance_insufficient_total',
    help: "Payouts whose job was parked because the platform's balance at the processor was too low",
    registers,
  }),
  failedAttempts: new Counter({
    name: 'sluice_failed_attempts_total',
    help: 'Attempts at jobs with a call to a provider that did not succeed, by outcome: retry (certainly no effect), ambiguous (maybe an effect), misconfigured (credentials refused), declined, unknown, parked, discarded',
    labelNames: ['provider', 'operation', 'outcome'],
    registers,
  }),
  outage: new Gauge({
    name: 'sluice_provider_outage_seconds',
    help: `How long an outage of the provider has lasted; absent without an outage. operation: the operation without answers, empty if there are none at all. ${SAME_IN_WORKERS}`,
    labelNames: ['provider', 'operation'],
    registers,
  }),
}
