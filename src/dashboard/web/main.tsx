// The dashboard in the browser.
import './look/base.css'
import '@mantine/core/styles.layer.css'
import './look/tokens.css'
import './look/kit.css'
import './look/table.css'
import './look/pages.css'
import './look/operations.css'
import './look/charts.css'
import './look/timeline.css'
import './look/shell.css'
import { MantineProvider } from '@mantine/core'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient } from './queries.ts'
import { router } from './router.tsx'
import { theme, variables } from './theme.ts'

// The policy of the page wants it on each style element. The second is where the scroll lock of dialogs looks for it.
const nonce = document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content ?? ''
Object.assign(globalThis, { __webpack_nonce__: nonce })

createRoot(document.querySelector('#root')!).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={variables}
      defaultColorScheme="auto"
      getStyleNonce={() => nonce}
    >
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
)
