// An object in the format of Stripe's API.

export type Rendered = { [name: string]: unknown }
