# kpu::control
