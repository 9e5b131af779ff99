// An object as Stripe's API shows it.

export type Rendered = { [name: string]: unknown }
