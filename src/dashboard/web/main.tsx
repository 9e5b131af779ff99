// The entry point of the dashboard in the browser.
import './styles/base.css'
import '@mantine/core/styles.layer.css'
import './styles/tokens.css'
import './styles/kit.css'
import './styles/table.css'
import './styles/pages.css'
import './styles/operations.css'
import './styles/charts.css'
import './styles/timeline.css'
import './styles/shell.css'
import './styles/mode.css'
import { MantineProvider } from '@mantine/core'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { MODE } from './mode.ts'
import { queryClient } from './queries.ts'
import { router } from './router.tsx'
import { theme, variables } from './theme.ts'

// The content security policy requires the nonce on style elements. The scroll lock of dialogs reads the nonce from
// `__webpack_nonce__`.
const nonce = document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content ?? ''
Object.assign(globalThis, { __webpack_nonce__: nonce })

document.documentElement.dataset['mode'] = MODE

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
